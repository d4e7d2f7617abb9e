"""Serves the project's ASGI app, with static files and Django's own reloading."""

import socket

from django.apps import apps
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.utils.module_loading import import_string

from spindle.server import Config, Server
from spindle.server.logs import set_up_logging

STATIC_FILES = apps.is_installed("django.contrib.staticfiles")
if STATIC_FILES:
    from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
    from django.contrib.staticfiles.management.commands.runserver import Command as Base
else:
    from django.core.management.commands.runserver import Command as Base


class _Server:
    """A Spindle server with the methods that Django calls."""

    def __init__(self, address, handler_class, ipv6=False):
        self.socket = socket.create_server(address, family=socket.AF_INET6 if ipv6 else socket.AF_INET, backlog=2048)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def set_app(self, app):
        self.app = app

    def serve_forever(self):
        set_up_logging("warning")
        # Django reloads by ending the process, so nothing is to be waited for.
        Server(Config(app=self.app, interface="asgi3", lifespan="off", timeout_graceful_shutdown=0)).run([self.socket])


class Command(Base):
    help = "Serves the project's ASGI app with a Spindle server."
    server_cls = _Server

    def get_handler(self, *args, **options):
        name = getattr(settings, "ASGI_APPLICATION", None)
        app = import_string(name) if name else get_asgi_application()
        if STATIC_FILES and options["use_static_handler"] and (settings.DEBUG or options["insecure_serving"]):
            app = ASGIStaticFilesHandler(app)
        return app
