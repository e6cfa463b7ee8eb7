"""Several servers in the place of one, for scenes on a shared store: with SCENE_SERVERS=N in the environment each server
of harness.py is N of them with the same options, behind haproxy without stickiness. They know nothing of each other and
keep no answers ready: what one acknowledged, the next one asked has.

What one server says of itself alone, a scene says by this, with the reason:

    @scene
    @one_server('it counts what one server did')
    def ready_answers_are_counted(binary):
"""
import os

OPTIONS = ('hot_ttl=0',)


def count():
    return int(os.environ.get('SCENE_SERVERS', '1'))


def options():
    """Words of a command line."""
    return [word for option in OPTIONS for word in ('--set', option)] if count() > 1 else []


def one_server(reason):
    """A scene that is left out with several servers."""
    def mark(function):
        function.one_server = reason
        return function
    return mark


def left_out(function):
    """Why this scene does not run now, or None."""
    return getattr(function, 'one_server', None) if count() > 1 else None


class Others:
    """Beside a server that has started: those that take turns with it, and their balancer."""

    def __init__(self, first, start):
        from haproxy_help import Haproxy     # pylint: disable=import-outside-toplevel,cyclic-import
        self.servers = []
        try:
            for _ in range(count() - 1):
                self.servers.append(start())
            self.balancer = Haproxy([first.port, *(server.port for server in self.servers)])
        except BaseException:
            self.end()
            raise

    @property
    def port(self):
        return self.balancer.port

    def end(self):
        """Without a word of how they ended: the first one is asked that."""
        if hasattr(self, 'balancer'):
            self.balancer.close()
        for server in self.servers:
            server.close()
