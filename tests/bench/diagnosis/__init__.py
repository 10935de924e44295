"""An open benchmark of diagnosis: compares tools' answers about slow runs with known facts."""
