def note_text(name): return ""
def update_readme(path): pass
