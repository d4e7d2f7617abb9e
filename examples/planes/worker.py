"""A worker process: it counts the words of each request."""

from spindle import relay


def count(request):
    return b"%d words\n" % len(request.body.split())


relay.work(count)
