"""OOM Guard: a failed call is repeated with less memory."""
