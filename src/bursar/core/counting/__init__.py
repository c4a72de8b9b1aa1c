"""Ways of counting pods: what each of them answers, and how the answers become one charge."""
