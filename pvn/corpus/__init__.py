"""What is asked and flown: tasks, the policies that need no learning, the one roll-out loop."""
