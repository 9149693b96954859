"""What memory is in use, and the reports and journal that say so."""
