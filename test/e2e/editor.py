"""VisualEditor as a person meets it: opened by its address, typed into, saved with its buttons."""
import atexit
import json

from webdriver import Browser
from wiki import ADMIN, PASSWORD

# What an editor that writes a page anew would change.
TEXT = ('Before  the   table. \n\n{{%s}}\n\n{| class="x"\n|odd||  spacing\n|}\n\n'
        "== First part==\n* '''one''' \n*two\n\n== Second part ==\nThe last paragraph.\n")
TARGET = 'const t = window.ve && ve.init && ve.init.target; const s = t && t.getSurface && t.getSurface();'
# Loaded, and what it loaded can be typed into.
READY = TARGET + """ return !!( s && t.active && !t.activating && !t.switchingDeferred_ && s.getModel().getDocument() &&
    !document.querySelector( '.ve-init-mw-desktopArticleTarget-loading-overlay' ) );"""
SAVE = '.oo-ui-tool-name-showSave.oo-ui-widget-enabled a.ve-ui-toolbar-saveButton'
DOCUMENT = '.ve-init-mw-target-surface .ve-ce-attachedRootNode'
_browser = []


def the_editor(wiki):
    """VisualEditor of the wiki in the one browser of this process."""
    if not _browser:
        _browser.append(Browser())
        atexit.register(_browser[0].close)
    return Editor(_browser[0], wiki)


class Editor:
    def __init__(self, browser, wiki):
        self.browser, self.wiki = browser, wiki

    def open(self, title, **query):
        """Opens title for editing; query: more of the address, as section=1 or oldid=7."""
        # A busy VisualEditor has not yet forgotten what it kept of the edit that was saved a moment ago, restores it, and hangs.
        self.browser.go(f'{self.wiki.base}/w/resources/assets/mediawiki.png')
        self.browser.js('sessionStorage.clear();')
        more = ''.join(f'&{name}={value}' for name, value in query.items())
        self.browser.go(f'{self.wiki.base}/w/index.php?title={title}&veaction=edit&vehidebetadialog=1{more}')
        self._wait_mode('visual')

    def log_in(self):
        """As the administrator, until the browser forgets it."""
        self.browser.go(f'{self.wiki.base}/w/index.php?title=Special:UserLogin')
        for field, text in (('#wpName1', ADMIN), ('#wpPassword1', PASSWORD)):
            self.browser.click(field)
            self.browser.type(text)
        self.browser.click('#wpLoginAttempt')
        self.browser.until("return window.mw && mw.config.get( 'wgUserName' );", 'somebody is logged in')

    def _wait_mode(self, mode):
        self.browser.until(READY, 'VisualEditor has loaded')
        self.browser.until(TARGET + f'return s.getMode() === {json.dumps(mode)};', f'the editor is in mode {mode}')
        # The notice that nobody is logged in covers what is to be clicked.
        self.browser.until("""const close = [...document.querySelectorAll( '.oo-ui-popupWidget-head a' )]
            .filter( e => e.getClientRects().length );
            close.forEach( e => e.click() );
            return !close.length;""", 'the notices are closed')

    def etag(self):
        return self.browser.js(TARGET + 'return t.etag;')

    def text(self):
        """The text of the document in the editor."""
        return self.browser.js(TARGET + 'return s.getModel().getDocument().data.getText( true );')

    def type_behind(self, text, typed):
        """Puts the cursor behind text, which stands once in the document, with the mouse's way in, and types."""
        self.browser.click(DOCUMENT)
        self.browser.js(TARGET + """
            const data = s.getModel().getDocument().data;
            let at = -1;
            for ( let i = 0; i + arguments[ 0 ].length <= data.getLength() && at < 0; i++ ) {
                let n = 0;
                while ( n < arguments[ 0 ].length && data.getCharacterData( i + n ) === arguments[ 0 ][ n ] ) { n++; }
                if ( n === arguments[ 0 ].length ) { at = i + n; }
            }
            if ( at < 0 ) { throw new Error( 'not in the document: ' + arguments[ 0 ] ); }
            s.getModel().setLinearSelection( new ve.Range( at ) );
            s.getView().focus();""", text)
        self.browser.type(typed)
        self.browser.until(TARGET + 'return s.getModel().getDocument().data.getText( true ).includes( '
                           f'{json.dumps(typed)} );', f'{typed!r} stands in the document')

    def type_into_empty(self, typed):
        """Types into a document that holds nothing yet."""
        self.browser.click(DOCUMENT)
        self.browser.type(typed)
        self.browser.until(TARGET + 'return s.getModel().getDocument().data.getText( true ).includes( '
                           f'{json.dumps(typed)} );', f'{typed!r} stands in the document')

    def switch(self, mode):
        """To 'source' or back to 'visual' with the pencil's menu."""
        self.browser.click('.ve-ui-toolbar-group-editMode .oo-ui-popupToolGroup-handle')
        self.browser.click(f'.oo-ui-tool-name-editMode{mode.capitalize()} a')
        self._wait_mode(mode)

    def save(self, summary='typed'):
        """Saves with the dialog's button. Returns when the page shows the saved revision, with its number."""
        self.open_save_dialog()
        self.press_save()
        return self.wait_saved()

    def open_save_dialog(self):
        self.browser.until(f"return !!document.querySelector( '{SAVE}' );", 'the page can be saved')
        self.before = self.browser.js("return [ mw.config.get( 'wgCurRevisionId' ), performance.timeOrigin ];")
        self.browser.click(SAVE)
        self.browser.until("""const d = document.querySelector( '.ve-ui-mwSaveDialog' );
            return !!d && d.closest( '.oo-ui-window-ready' ) !== null || !!document.querySelector(
            '.ve-ui-mwSaveDialog.oo-ui-window-ready' );""", 'the dialog is open')

    def press_save(self):
        self.browser.click('.ve-ui-mwSaveDialog .oo-ui-processDialog-actions-primary a')

    def wait_saved(self):
        return self.browser.until(f"""
            const e = document.querySelector( '.ve-ui-mwSaveDialog .oo-ui-processDialog-errors' );
            if ( e && e.getClientRects().length ) {{ return 'error: ' + e.innerText; }}
            const active = window.ve && ve.init && ve.init.target && ve.init.target.active;
            const now = mw.config.get( 'wgCurRevisionId' );
            return !active && now > {self.before[0]} ? now : 0;""", 'the page is saved')

    def _review(self, icon):
        self.browser.click('.ve-ui-mwSaveDialog .oo-ui-processDialog-actions-other a')
        self.browser.click(f'.ve-ui-mwSaveDialog .oo-ui-buttonSelectWidget .oo-ui-icon-{icon}')

    def review(self):
        """The changed lines of the source, removed before added, as the open dialog shows them."""
        self._review('wikiText')
        return self.browser.until("""return [ ...document.querySelectorAll(
            '.ve-ui-mwSaveDialog td.diff-deletedline, .ve-ui-mwSaveDialog td.diff-addedline' ) ]
            .map( e => e.innerText ).filter( t => t );""", 'the changes are shown')

    def review_visually(self):
        """What the open dialog shows as removed and as inserted, in the page as it looks."""
        self._review('eye')
        self.browser.until("""return !!document.querySelector(
            '.ve-ui-mwSaveDialog .ve-ui-diffElement-document' );""", 'the changes are shown')
        return self._compared()

    def back_from_review(self):
        self.browser.click('.ve-ui-mwSaveDialog .oo-ui-processDialog-actions-safe a')

    def wait_conflict(self):
        self.browser.until("""const p = document.querySelector( '.ve-ui-mwSaveDialog' );
            return !!p && /edit conflict/.test( p.innerText );""", 'the conflict is told')

    def open_comparison(self, title, old, new):
        """Opens the visual comparison of two revisions; what its page shows by itself."""
        self.browser.go(f'{self.wiki.base}/w/index.php?title={title}&diff={new}&oldid={old}&diffmode=visual')
        return self.browser.js('return document.body.innerText;')

    def compare(self, title, old, new):
        """What the visual comparison of two revisions shows as removed and as inserted."""
        self.open_comparison(title, old, new)
        self.browser.until("""return !!document.querySelector(
            '.ve-init-mw-diffPage-diff .ve-ui-diffElement-document' );""", 'the comparison is shown')
        return self._compared()

    def _compared(self):
        return self.browser.js("""return [ 'del', 'ins' ].map( name => [ ...document.querySelectorAll(
            '.ve-ui-diffElement-document ' + name ) ].map( e => e.innerText.trim() ) );""")
