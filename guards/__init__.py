"""The room for gates: pure, incremental judgement on tokens and text."""
