"""Connections: who is let in, the bytes of requests on their way in, and of answers on their way out."""
