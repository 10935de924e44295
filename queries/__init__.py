"""Every analysis that SQL can say: schema, views and named questions, one file each."""
