"""Small decoders generated from random choices: architectures and forms that no known exporter writes."""
