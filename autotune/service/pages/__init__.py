"""Pages for people: server-made HTML that loads nothing from elsewhere."""
