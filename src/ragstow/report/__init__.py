"""The paper edge: HTML pages and other documents."""
