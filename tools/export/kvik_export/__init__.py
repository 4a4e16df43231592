"""Exports generative models to ONNX with real exporters and checks every file against PyTorch."""

DECODER_FORMS = ("one", "pair", "merged")
GPT2_FORMS = (*DECODER_FORMS, "hand", "stacked", "dynamo-names")
