"""comfy_api/latest, newer than 0.33: a schema may say that its class begins or ends a loop."""


class io:
    class Schema:
        loop_boundary = None
