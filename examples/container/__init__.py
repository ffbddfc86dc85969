"""The consumer as a process in a container: an image, and its service on ECS."""
