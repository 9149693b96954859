"""The prompt of a picture, as small as it can be."""


def node(class_type, **inputs):
    return {"class_type": class_type, "inputs": inputs}


def picture():
    return {
        "1": node("Checkpoint", name="a"),
        "2": node("Encode", clip=["1", 1], text="x"),
        "3": node("Empty"),
        "4": node("Sample", model=["1", 0], positive=["2", 0], latent=["3", 0]),
        "5": node("Decode", samples=["4", 0], vae=["1", 2]),
        "6": node("Save", images=["5", 0]),
    }
