"""The app for INSTALLED_APPS."""

from django.apps import AppConfig


class SpindleConfig(AppConfig):
    name = "spindle.django"
    label = "spindle"
