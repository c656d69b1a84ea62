"""What is learned: seeing, mapping, reading, predicting where to fly, and flying there."""
