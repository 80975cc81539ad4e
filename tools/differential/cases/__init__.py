"""Requests for both API servers, one module an area."""
