"""What is shown and how: one module per output. Reporters print what the library found."""
