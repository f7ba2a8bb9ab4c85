"""Write a recording as source: calls as they were made, with the names they had."""
