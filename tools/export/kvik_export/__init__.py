"""Exports generative models to ONNX with real exporters and proves every file against PyTorch."""
