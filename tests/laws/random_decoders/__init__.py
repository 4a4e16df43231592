"""Small decoders written from random choices: the architectures nobody thought of, spelled as no exporter spells them."""
