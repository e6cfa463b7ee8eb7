"""A browser driven by the W3C WebDriver protocol over plain HTTP: chromedriver and Chromium of Debian's packages."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

START_TIMEOUT = 180
CALL_TIMEOUT = 240
WAIT_TIMEOUT = 180
POLL_EVERY = 0.05
ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
KEYS = {'Enter': '\ue007', 'End': '\ue010', 'Home': '\ue011', 'Escape': '\ue00c', 'Control': '\ue009',
        'ArrowRight': '\ue014', 'Backspace': '\ue003'}


class BrowserError(Exception):
    """What the browser would not do, or did not come about in time."""


class Browser:
    """One driver process and one session with a profile of its own. `with Browser() as b:`"""

    def __init__(self):
        if shutil.which('chromedriver') is None or shutil.which('chromium') is None:
            raise BrowserError('no chromedriver or no chromium; script/deps browser installs them')
        self.folder = tempfile.mkdtemp(prefix='browser-')
        self.session = self._connection = None
        # A group of its own: whatever the browser forks is ended with it.
        self.process = subprocess.Popen(
            ['chromedriver', '--port=0', f'--log-path={self.folder}/driver.log'], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**os.environ, 'HOME': self.folder, 'TMPDIR': self.folder})
        try:
            self.port = self._read_port()
            self.session = self._call('POST', '/session', {'capabilities': {'alwaysMatch': {
                'browserName': 'chrome', 'goog:chromeOptions': {'binary': shutil.which('chromium'), 'args': [
                    '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
                    '--disable-background-networking', '--disable-component-update', '--disable-sync', '--mute-audio',
                    '--window-size=1280,1000', f'--user-data-dir={self.folder}/profile']},
                'timeouts': {'script': CALL_TIMEOUT * 1000, 'pageLoad': CALL_TIMEOUT * 1000}}}})['sessionId']
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def _read_port(self):
        """The port it says on stdout; the rest of stdout is read away."""
        found = []
        said = threading.Event()

        def read():
            for line in self.process.stdout:
                port = re.search(r'started successfully on port (\d+)', line)
                if port:
                    found.append(int(port.group(1)))
                    said.set()
            said.set()
        threading.Thread(target=read, daemon=True).start()
        said.wait(START_TIMEOUT)
        if not found:
            raise BrowserError('chromedriver did not start')
        return found[0]

    def close(self):
        """Ends the session, the driver and every process of its group."""
        if self.session is not None:
            try:
                self._call('DELETE', f'/session/{self.session}')
            except (BrowserError, OSError, http.client.HTTPException):
                pass
            self.session = None
        if self._connection is not None:
            self._connection.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, method, path, body=None):
        if self._connection is None:
            self._connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=CALL_TIMEOUT + 30)
        text = json.dumps(body if body is not None else {}) if method == 'POST' else None
        self._connection.request(method, path, text, {'Content-Type': 'application/json'})
        answer = self._connection.getresponse()
        value = json.loads(answer.read())['value']
        if answer.status != 200:
            raise BrowserError(f'{path.rsplit("/", 1)[-1]}: {value.get("error")}: {value.get("message", "")[:800]}')
        return value

    def _in_session(self, method, path, body=None):
        return self._call(method, f'/session/{self.session}{path}', body)

    # ---- what a person does

    def go(self, url):
        self._in_session('POST', '/url', {'url': url})

    def forget(self):
        """All cookies."""
        self._in_session('DELETE', '/cookie')

    def url(self):
        return self._in_session('GET', '/url')

    def click(self, css):
        """Clicks the first visible element of css, as soon as it can be clicked."""
        find = (f'return [...document.querySelectorAll({json.dumps(css)})]'
                '.find( e => e.getClientRects().length ) || null;')
        until = time.monotonic() + WAIT_TIMEOUT
        while True:
            try:
                element = self.until(find, f'{css} is visible')
                self._in_session('POST', f'/element/{element[ELEMENT]}/click', {})
                return
            except BrowserError:    # it moved, or something lies over it still
                if time.monotonic() > until:
                    raise
                time.sleep(POLL_EVERY)

    def type(self, text):
        """Types text into what has the focus."""
        keys = [{'type': kind, 'value': c} for c in text for kind in ('keyDown', 'keyUp')]
        self._in_session('POST', '/actions', {'actions': [{'type': 'key', 'id': 'keyboard', 'actions': keys}]})

    def press(self, *names):
        """One key, with those before it held down: press('Control', 'End')."""
        values = [KEYS.get(name, name) for name in names]
        keys = [{'type': 'keyDown', 'value': v} for v in values] + [{'type': 'keyUp', 'value': v} for v in values[::-1]]
        self._in_session('POST', '/actions', {'actions': [{'type': 'key', 'id': 'keyboard', 'actions': keys}]})

    # ---- what a person sees

    def js(self, script, *args):
        """What script, the body of a function, returns; a promise is waited for."""
        return self._in_session('POST', '/execute/sync', {'script': script, 'args': list(args)})

    def until(self, script, what, timeout=WAIT_TIMEOUT):
        """Waits until script gives something true, and returns it. what: said when it does not."""
        until = time.monotonic() + timeout
        while True:
            value, why = None, ''
            try:
                value = self.js(script)
            except BrowserError as error:   # what it looks at may not be there yet
                if 'javascript error' not in str(error):
                    raise
                why = f' ({error})'
            if value:
                return value
            if time.monotonic() > until:
                raise BrowserError(f'not within {timeout} s: {what}{why}')
            time.sleep(POLL_EVERY)
