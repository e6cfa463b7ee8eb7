"""Which MediaWiki a wiki runs, and where its code is.

Without a version it is the one of the machine's own Debian, a package that script/deps installs. Another version is
fetched from the machine's mirror of Debian as apt fetches, signatures checked, and unpacked below
$XDG_CACHE_HOME/palimpsest/mediawiki; neither the packages that are installed nor apt's own lists change. It runs on the
PHP that is installed.
"""
import contextlib
import fcntl
import os
import pathlib
import re
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SUITES = {'1.39': 'bookworm', '1.43': 'trixie'}     # the releases of Debian that have these versions
PACKAGES = ('mediawiki', 'mediawiki-classes')
KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
CODE = 'usr/share/mediawiki'                        # where Debian's package puts MediaWiki
# Lists of its own, of one release of Debian; nothing of the machine's is read but how it reaches a mirror.
APT_CONF = """Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Acquire::AllowInsecureRepositories "false";
Acquire::Retries "3";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
APT::Get::AllowUnauthenticated "false";
APT::Update::Error-Mode "any";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""
TOLD_LINES = 6


class WikiError(Exception):
    """What could not be done, for a person."""


class MediaWiki:
    """One version's files: those of its package, below root."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.code = self.root / CODE
        self.changelog = self.root / 'usr/share/doc/mediawiki/changelog.gz'

    def version(self):
        """As 1.39; None where there is none."""
        with contextlib.suppress(OSError):
            return re.search(r"'MW_VERSION', '(\d+\.\d+)", (self.code / 'includes/Defines.php').read_text())[1]
        return None

    def has_extension(self, name):
        return (self.code / 'extensions' / name / 'extension.json').is_file()


INSTALLED = MediaWiki('/')


def editor_is_wired(version=None):
    """Whether VisualEditor can be told of a server: MediaWiki 1.41 took VirtualRESTService away, and the settings with it.
    version: None is the machine's own."""
    version = version or INSTALLED.version()
    if version is None:
        raise WikiError('not installed: mediawiki; script/deps wiki does it')
    return tuple(map(int, version.split('.'))) < (1, 41)


def check_version(version):
    """Raises for a version that no release of Debian has for us."""
    if version not in (None, INSTALLED.version(), *SUITES):
        raise WikiError(f'there is no MediaWiki {version} to be had here, but {" and ".join(SUITES)}')


def choose(version=None, say=lambda text: None):
    """The MediaWiki of that version, or the machine's own without one; fetched when it is another. say: told what is begun."""
    check_version(version)
    if version in (None, INSTALLED.version()):
        return INSTALLED
    cache = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'palimpsest/mediawiki'
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f'{version}.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / version).exists():
            say(f'fetching MediaWiki {version} of Debian {SUITES[version]}')
            _fetch(version, cache)
    return MediaWiki(cache / version)


def _fetch(version, cache):
    """Unpacks the packages of version at cache/version, which is there only when it is whole."""
    suite = SUITES[version]
    with tempfile.TemporaryDirectory(prefix=f'{version}-', dir=cache) as folder:
        folder = pathlib.Path(folder)
        _download(suite, folder)
        root = folder / 'root'
        for package in folder.glob('*.deb'):
            _said(f'unpacking {package.name}', ['dpkg-deb', '-x', package, root])
        found = MediaWiki(root).version()
        if found != version:
            raise WikiError(f'Debian {suite} has MediaWiki {found}, not {version}')
        _relink(root)
        root.chmod(0o755)
        root.rename(cache / version)


def _download(suite, folder):
    """The packages of that release of Debian, into folder."""
    mirrors = [(mirror, name) for mirror, name in ((_mirror('Debian', suite), suite),
                                                   (_mirror('Debian-Security', suite), f'{suite}-security')) if mirror]
    if not mirrors:
        raise WikiError("this machine's own sources name no mirror of Debian; run apt-get update first")
    if not pathlib.Path(KEYS).exists():
        raise WikiError(f'{KEYS} is missing: it is of the package debian-archive-keyring')
    for name in ('state/lists/partial', 'cache/archives/partial'):
        (folder / name).mkdir(parents=True)
    (folder / 'status').touch()          # nothing is installed: else an older version were a step back, and not taken
    (folder / 'sources.list').write_text(''.join(f'deb [signed-by={KEYS} target=Packages] {mirror} {name} main\n'
                                                 for mirror, name in mirrors))
    (folder / 'apt.conf').write_text(APT_CONF.format(folder=folder))
    for words in (['update'], ['download', *PACKAGES]):
        _said(f'fetching from {" and ".join(mirror for mirror, _ in mirrors)}',
              ['apt-get', '-q', f'-c={folder}/apt.conf', *words], folder)


def _mirror(label, suite):
    return _said('asking apt-get for its mirror', [HERE.parent / 'debian_mirror.sh', label, suite]).strip()


def _said(what, command, folder=None):
    """What command prints; its last words are told when it fails."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors='replace', check=False)
    except FileNotFoundError as error:
        raise WikiError(f'{what}: {error.filename} is missing; this wants a Debian') from None
    if done.returncode != 0:
        raise WikiError(f'{what} failed:\n' + '\n'.join((done.stdout + done.stderr).splitlines()[-TOLD_LINES:]))
    return done.stdout


def _relink(root):
    """The package's links go to where it would be installed: they shall end below root, wherever that is."""
    for folder, folders, files in os.walk(root):
        for link in (pathlib.Path(folder) / name for name in folders + files):
            if link.is_symlink() and os.path.isabs(os.readlink(link)):
                target = os.path.relpath(f'{root}{os.readlink(link)}', folder)
                link.unlink()
                link.symlink_to(target)
