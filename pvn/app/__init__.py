"""What people see: pictures of landmarks, fields and flights."""
