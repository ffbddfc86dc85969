"""Bulk jobs on EMR Serverless."""
