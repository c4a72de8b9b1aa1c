"""What LimitRanges, RuntimeClasses and PriorityClasses make of a pod that is created."""
