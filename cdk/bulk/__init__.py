"""Spark jobs on EMR Serverless: the application, its network, its permissions and its packages."""
