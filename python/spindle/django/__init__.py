"""manage.py runserver with a Spindle server: put "spindle.django" first into INSTALLED_APPS."""
