"""Reports on paper: a verification as text, JUnit and one self-contained HTML page. Knows no cluster."""
