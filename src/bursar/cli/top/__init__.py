"""`bursar top`: how much there is, what pods request and use of it, and what is free."""
