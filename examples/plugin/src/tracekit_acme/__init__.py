"""What Acme adds to tracekit."""
