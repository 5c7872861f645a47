"""Files written whole or not at all, and reading what anybody may have made."""
