"""What tests share: builders of objects, scenes, and the real programs they run against."""
