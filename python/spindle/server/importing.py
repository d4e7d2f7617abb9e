"""Finds the app that a user has named, and says clearly why it cannot be found."""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback


class AppError(Exception):
    """The app cannot be served. The message is for the user; the reason is one of a few words."""

    def __init__(self, text, reason="app"):
        super().__init__(text)
        self.reason = reason


def load_app(config):
    """Return the app of a configuration as an ASGI 3 app, and the interface that it has."""
    app = config.app
    if isinstance(app, str):
        directory = os.path.abspath(config.app_dir or ".")
        if directory not in sys.path:
            sys.path.insert(0, directory)
        app = import_app(app, directory, config.find_module)
    if config.factory:
        try:
            app = app()
        except Exception as e:
            if isinstance(e, TypeError) and e.__traceback__.tb_next is None:  # raised by the call, not in the factory
                raise AppError(f"spindle: the factory cannot be called without arguments: {e}") from None
            raise AppError(_failed("calling the factory", e), "import") from None
    interface = config.interface if config.interface != "auto" else detect(app)
    if interface == "asgi2":
        app = _asgi2(app)
    elif interface == "wsgi":
        from .wsgi import WSGIApp

        app = WSGIApp(app, threads=config.wsgi_threads)
    return app, interface


def import_app(name, directory, remedy):
    """Import "module:attribute", "file.py" or "file.py:attribute". The remedy is for a module that is not in the directory."""
    module_name, _, attribute = name.partition(":")
    if not module_name or (":" in name and not attribute):
        raise AppError(f"spindle: {name!r} does not name an app; write module:attribute, for example main:app")
    if module_name.endswith(".py"):
        module = _import_file(module_name)
    else:
        module = _import_module(module_name, directory, remedy)
    if not attribute:
        for attribute in ("app", "application"):
            if hasattr(module, attribute):
                return getattr(module, attribute)
        raise AppError(f"spindle: {module_name} has neither app nor application; name the attribute: {module_name}:name", "attribute")
    found = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            candidates = sorted(k for k, v in vars(module).items() if callable(v) and not k.startswith("_") and not inspect.isclass(v))
            hint = f"; it has {', '.join(candidates[:5])}" if candidates else ""
            raise AppError(f"spindle: module {module_name!r} has no attribute {attribute!r}{hint}", "attribute") from None
    return found


def _import_module(name, directory, remedy):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (name == e.name or name.startswith(e.name + ".")):
            raise AppError(f"spindle: there is no module {name!r} in {directory} or on the path; {remedy}", "module") from None
        raise AppError(_import_failed(name, e), "import") from None
    except Exception as e:
        raise AppError(_import_failed(name, e), "import") from None


def _import_file(path):
    if not os.path.exists(path):
        raise AppError(f"spindle: there is no file {path}", "module")
    directory, file = os.path.split(os.path.abspath(path))
    if directory not in sys.path:
        sys.path.insert(0, directory)
    name = file.removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        del sys.modules[name]
        raise AppError(_import_failed(path, e), "import") from None
    return module


def _import_failed(name, error):
    return _failed(f"importing {name}", error)


def _failed(what, error):
    """Describe what failed by its traceback, without the frames that are not the user's."""
    here = os.path.dirname(os.path.abspath(__file__))
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if not f.filename.startswith((here, "<frozen importlib")) and "/importlib/" not in f.filename]
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    return f"spindle: {what} failed\n" + "".join(lines).rstrip()


def detect(app):
    """Return which interface an app has: asgi3, asgi2 or wsgi."""
    if not callable(app):
        raise AppError(f"spindle: {app!r} is not an app: it cannot be called")
    if inspect.isclass(app):
        return "asgi3" if hasattr(app, "__await__") else "asgi2"
    call = app if inspect.isfunction(app) or inspect.ismethod(app) else getattr(app, "__call__", app)
    if inspect.iscoroutinefunction(call):
        return "asgi3"
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return "asgi3"
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        # The standard library's check of WSGI apps does not name its parameters.
        return "wsgi" if getattr(call, "__module__", None) == "wsgiref.validate" else "asgi3"
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if len(needed) == 2:
        return "wsgi"
    if len(needed) == 1:
        return "asgi2"
    if len(needed) == 3:
        return "asgi3"
    raise AppError(
        f"spindle: {app!r} is not an app: it takes {len(needed)} arguments; an ASGI app takes scope, receive and send, "
        "a WSGI app environ and start_response. A function that returns an app needs --factory")


def _asgi2(app):
    async def asgi3(scope, receive, send):
        await app(scope)(receive, send)

    return asgi3
