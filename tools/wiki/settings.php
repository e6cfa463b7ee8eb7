<?php
# What the wiki of tools/wiki sets beyond the installer's own lines. Its LocalSettings.php requires this file after
# naming the wiki's folder in $wikiDir.

# The port may change from one start to the next.
$wgServer = $wgCanonicalServer = 'http://127.0.0.1:' . trim( file_get_contents( "$wikiDir/run/port" ) );
$wgArticlePath = '/wiki/$1';
$wgCacheDirectory = "$wikiDir/cache";
$wgUploadDirectory = "$wikiDir/images";
$wgUploadPath = "$wgScriptPath/images";
$wgTmpDirectory = "$wikiDir/tmp";
$wgLogos = [ "1x" => "$wgResourceBasePath/resources/assets/mediawiki.png" ];
$wgEnableUploads = false;
$wgPingback = false;
$wgShowExceptionDetails = true;
$wgDebugLogGroups['exception'] = "$wikiDir/log/mw-exception.log";
$wgDebugLogGroups['error'] = "$wikiDir/log/mw-error.log";

# One cache that the web and the command line both see: what APCu holds, a maintenance script could not drop.
$wgMainCacheType = $wgParserCacheType = $wgSessionCacheType = CACHE_DB;

# SQLite has one writer, and MediaWiki's page locks wait for each other beside it when two requests write at once. So
# POSTs to api.php and index.php share one php-fpm worker (nginx.conf), and that one runs the job queue after each
# answer instead of a runner beside it: a shutdown function, behind the request's last deferred update.
$wgJobRunRate = 0;
if ( MW_ENTRY_POINT === 'api' && ( $_SERVER['REQUEST_METHOD'] ?? '' ) === 'POST' ) {
	$wgExtensionFunctions[] = static function () {
		register_shutdown_function( static function () {
			\MediaWiki\MediaWikiServices::getInstance()->getJobRunner()
				->run( [ 'maxJobs' => 500, 'maxTime' => 20, 'throttle' => false ] );
		} );
	};
}

# Tests edit faster than people.
$wgRateLimits = [];
$wgAccountCreationThrottle = [];
$wgGroupPermissions['*']['noratelimit'] = true;
$wgGroupPermissions['sysop']['deleterevision'] = true; # hides a revision's text

# Parsoid's own routes: /w/rest.php/{domain}/v3/...
wfLoadExtension( 'Parsoid', "$IP/vendor/wikimedia/parsoid/extension.json" );
$wgParsoidSettings['linting'] = true; # else page/lint and the transform to lint find nothing

# VisualEditor for everyone, with its source mode and visual diffs, and no question before the first edit.
wfLoadExtension( 'VisualEditor' );
$wgDefaultUserOptions['visualeditor-enable'] = 1;
$wgDefaultUserOptions['visualeditor-editor'] = 'visualeditor';
$wgDefaultUserOptions['visualeditor-newwikitext'] = 1;
$wgDefaultUserOptions['visualeditor-hidebetawelcome'] = 1;
$wgVisualEditorEnableWikitext = true;
$wgVisualEditorEnableDiffPage = true;
$wgVisualEditorEnableVisualSectionEditing = true;

foreach ( [ 'Cite', 'ParserFunctions', 'Poem', 'TemplateData', 'Scribunto', 'SyntaxHighlight_GeSHi' ] as $extension ) {
	if ( is_file( "$IP/extensions/$extension/extension.json" ) ) {
		wfLoadExtension( $extension );
	}
}
$wgScribuntoDefaultEngine = 'luasandbox';

# What was wired in later, in name order.
foreach ( glob( "$wikiDir/settings.d/*.php" ) as $later ) {
	require $later;
}
