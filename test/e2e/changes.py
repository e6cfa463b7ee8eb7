"""What scenes share that change pages of a real wiki in each way that a wiki knows, and compare what servers give with what the
wiki itself has."""
import struct
import time
import zlib

from rig import TIME_UUID, Pair
from harness import SceneError, eq, wait_until

FRESH = 30                          # a busy machine's wiki makes a page in this time
MODULE = "return { text = function() return '%s' end }"


def png(width, height):
    """An image of one colour."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = (b'\0' + b'\x20\x80\xc0' * width) * height
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
            + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


class Behind(Pair):
    """Two servers whose wiki changes. more: as of a Pair. Without, nobody tells them."""

    def __init__(self, binary, **more):
        super().__init__(binary, rights=('pagelang', 'editcontentmodel', 'import'), **more)

    def truth(self, title):
        """What the wiki itself has: None, or Parsoid's document of the newest revision."""
        rev = self.wiki.revision(title)
        return None if rev is None else self.wiki.parsoid(title, rev)['html']['body']

    def is_true(self, answer, truth):
        if truth is None:
            return answer.status == 404
        return answer.status == 200 and TIME_UUID.sub('', answer.body.decode()) == truth

    def wait_true(self, title):
        """How long until both servers have what the wiki has: which may take back what it says for a second itself."""
        began, last = time.monotonic(), []

        def both():
            answers, truth = self.read(title, query='?redirect=false'), self.truth(title)
            last[:] = [answer.status for answer in answers] + [answer.headers['cache-status'] for answer in answers]
            return all(self.is_true(answer, truth) for answer in answers)
        try:
            wait_until(both, f'{title} as the wiki has it', pause=0.1, timeout=FRESH)
        except SceneError as failure:
            raise SceneError(f'{failure}: {last}') from None
        return time.monotonic() - began


def pages_of(behind):
    """The pages of the scene, as they are before anything changes; {name: its title}."""
    wiki, run = behind.wiki, time.time_ns()
    names = ('Edited', 'Template user', 'Nested user', 'Module user', 'Image user', 'Missing image user', 'Red', 'Blue',
             'Deleted', 'Undeleted', 'Made anew', 'Moved', 'Moved silently', 'Moved over', 'Target', 'Redirect', 'Becomes redirect',
             'Hidden', 'Suppressed', 'Language', 'Protected', 'Purged', 'Imported')
    title = {name: f'{name} {run}'.replace(' ', '_') for name in names}
    t, extra = title, {'Template': f'Template:Fresh_{run}', 'Inner': f'Template:Inner_{run}', 'Module': f'Module:Fresh_{run}',
                       'File': f'Fresh_{run}.png', 'File2': f'Later_{run}.png', 'Link': f'Link_{run}'}
    wiki.edit(extra['Template'], 'first template')
    wiki.edit(extra['Inner'], 'first inner')
    wiki.edit(f'Template:Outer_{run}', '{{Inner_%d}}' % run)
    has_module = wiki.mediawiki.has_extension('Scribunto')
    if has_module:
        wiki.edit(extra['Module'], MODULE % 'first module')
    upload(behind, extra['File'], 40)
    texts = {name: f'Text of {name}.' for name in names}
    texts['Template user'] = '{{Fresh_%d}}' % run
    texts['Nested user'] = '{{Outer_%d}}' % run
    texts['Module user'] = '{{#invoke:Fresh_%d|text}}' % run if has_module else 'no modules here'
    texts['Image user'] = '[[File:%s]]' % extra['File']
    texts['Missing image user'] = '[[File:%s]]' % extra['File2']
    texts['Red'] = '[[%s]]' % extra['Link']
    texts['Blue'] = '[[%s]]' % t['Deleted']
    texts['Redirect'] = '#REDIRECT [[%s]]' % t['Edited']
    for name in names:
        wiki.edit(t[name], texts[name])
    behind.do(action='delete', title=t['Undeleted'])
    return {**t, **extra}


def upload(behind, name, width):
    """As somebody at the machine does: the action of api.php wants a form of another kind."""
    folder = behind.folder / f'upload-{time.time_ns()}'
    folder.mkdir()
    (folder / name).write_bytes(png(width, 30))
    eq(behind.wiki.maintenance('importImages.php', '--quiet', '--overwrite', '--user=Admin', str(folder)), 0, 'importImages.php')
    behind.wiki.api(action='query', meta='siteinfo')


def import_newer(behind, title):
    """A newer revision from another wiki's dump."""
    dump = behind.folder / 'dump.xml'
    dump.write_text(f'''<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en"><page>
        <title>{title.replace("_", " ")}</title><ns>0</ns><revision><timestamp>2040-01-01T00:00:00Z</timestamp>
        <contributor><username>Other</username></contributor><model>wikitext</model><format>text/x-wiki</format>
        <text>imported text</text></revision></page></mediawiki>''')
    eq(behind.wiki.maintenance('importDump.php', '--quiet', str(dump)), 0, 'importDump.php')


def changes_of(behind, t):
    """(what happens, how, the pages that are another one then)"""
    wiki, do = behind.wiki, behind.do
    second = {'reason': 'test'}

    def hide(name, **how):
        rev = wiki.revision(t[name])
        wiki.edit(t[name], 'clean text')
        do(action='revisiondelete', type='revision', ids=rev, hide='content', **how)
        t[f'{name} rev'] = rev

    def delete_and_make(name):
        do(action='delete', title=t[name], **second)
        wiki.edit(t[name], 'another life')

    return (
        ('edit', lambda: wiki.edit(t['Edited'], 'edited text'), ['Edited']),
        ('template edited', lambda: wiki.edit(t['Template'], 'second template'), ['Template user']),
        ('nested template edited', lambda: wiki.edit(t['Inner'], 'second inner'), ['Nested user']),
        ('module edited', lambda: wiki.edit(t['Module'], MODULE % 'second module'), ['Module user']),
        ('image in a new version', lambda: upload(behind, t['File'], 80), ['Image user']),
        ('missing image uploaded', lambda: upload(behind, t['File2'], 50), ['Missing image user']),
        ('image deleted', lambda: do(action='delete', title='File:' + t['File'], **second), ['Image user']),
        ('target of a red link made', lambda: wiki.edit(t['Link'], 'here'), ['Red']),
        ('page deleted, and the target of a link', lambda: do(action='delete', title=t['Deleted'], **second), ['Deleted', 'Blue']),
        ('undeleted', lambda: do(action='undelete', title=t['Undeleted'], **second), ['Undeleted']),
        ('deleted, made anew', lambda: delete_and_make('Made anew'), ['Made anew']),
        ('moved with a redirect', lambda: do(action='move', **{'from': t['Moved'], 'to': t['Moved'] + '_to'}, **second), ['Moved']),
        ('moved without a redirect', lambda: do(action='move', noredirect=1, **{'from': t['Moved silently'],
                                                                               'to': t['Moved silently'] + '_to'}, **second),
         ['Moved silently']),
        ('moved over another page', lambda: (do(action='delete', title=t['Target'], **second),
                                             do(action='move', **{'from': t['Moved over'], 'to': t['Target']}, **second)),
         ['Moved over', 'Target']),
        ('redirect to another page', lambda: wiki.edit(t['Redirect'], '#REDIRECT [[%s]]' % t['Red']), ['Redirect']),
        ('made a redirect', lambda: wiki.edit(t['Becomes redirect'], '#REDIRECT [[%s]]' % t['Red']), ['Becomes redirect']),
        ('text of a revision hidden', lambda: hide('Hidden'), ['Hidden']),
        ('text of a revision suppressed', lambda: hide('Suppressed', suppress='yes'), ['Suppressed']),
        ('page language', lambda: do(action='setpagelanguage', title=t['Language'], lang='de', **second), ['Language']),
        ('protected', lambda: do(action='protect', title=t['Protected'], protections='edit=sysop', **second), ['Protected']),
        ('action=purge', lambda: wiki.api(action='purge', titles=t['Purged']), ['Purged']),
        ('import of a newer revision', lambda: import_newer(behind, t['Imported']), ['Imported']),
    )
