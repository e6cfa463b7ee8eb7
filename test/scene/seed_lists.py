"""The command sequence of the article on coalescing in Redis, as it stands there, for scenes and benchmarks to set beside
ours: HSETNX and EXPIRE of a lock; the winner computes, LPUSH, EXPIRE; the others BRPOPLPUSH of the list onto itself and
EXPIRE. Its steps are methods of their own, so that a scene can end a client between any two.

What the article leaves open is chosen in its favour: BRPOPLPUSH waits `wait` seconds, and a loser does not touch the
lock's life unless `as_written` (every request runs both commands, the text says)."""
from list_help import RedisConnection


def lock_key(params):
    return 'lock-' + ''.join(params)


def list_key(params):
    return 'list-' + ''.join(params)


class Seed:
    """One request's client, on a connection of its own as the blocking read needs it."""

    def __init__(self, port, params, lock_ttl=60, list_ttl=120, wait=5, as_written=False, timeout=60):
        self.redis = RedisConnection(port, timeout)
        self.lock, self.list = lock_key(params), list_key(params)
        self.lock_ttl, self.list_ttl, self.wait, self.as_written = lock_ttl, list_ttl, wait, as_written

    def take_lock(self):
        """HSETNX alone."""
        return self.redis('HSETNX', self.lock, 'lock', 'got it') == 1

    def date_lock(self):
        self.redis('EXPIRE', self.lock, self.lock_ttl)

    def publish(self, text):
        self.redis('LPUSH', self.list, text)
        self.redis('EXPIRE', self.list, self.list_ttl)

    def read(self):
        """The list, or None after wait seconds."""
        got = self.redis('BRPOPLPUSH', self.list, self.list, self.wait)
        if got is not None:
            self.redis('EXPIRE', self.list, self.list_ttl)
        return got if got is None else got.decode()

    def request(self, make):
        """A whole request; make() computes the list, None is an error."""
        won = self.take_lock()
        if won or self.as_written:
            self.date_lock()
        if not won:
            return self.read()
        text = make()
        if text is not None:
            self.publish(text)
        return text

    def close(self):
        self.redis.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
