<?php
# Which copy of the database answers; mariadb.json beside this file says where they are, mariadb.py what it is for.
( static function () {
	$at = json_decode( file_get_contents( __DIR__ . '/mariadb.json' ), true );
	$said = static function ( $name, $else ) use ( $at ) {
		return trim( @file_get_contents( "{$at['folder']}/$name" ) ) ?: $else;
	};
	$reads = $said( 'reads', 'primary' );
	if ( isset( $_SERVER['HTTP_X_FROM_PRIMARY'] ) || MW_ENTRY_POINT === 'cli' ) {
		$reads = 'primary';
	}
	$one = static function ( $number, $load ) use ( $at ) {
		# A replica that is known to be behind is read all the same.
		return [ 'host' => "127.0.0.1:{$at['ports'][$number]}", 'dbname' => $at['name'], 'user' => $at['user'],
			'password' => $at['password'], 'type' => 'mysql', 'flags' => DBO_DEFAULT, 'load' => $load, 'max lag' => 86400 ];
	};
	$GLOBALS['wgDBservers'] = [ $one( 0, $reads === 'replica' ? 0 : 1 ) ];
	if ( $reads !== 'primary' ) {
		$GLOBALS['wgDBservers'][] = $one( 1, 1 );
	}
	if ( $said( 'lag', 'known' ) === 'unknown' ) {
		$GLOBALS['wgLBFactoryConf']['loadMonitor'] = [ 'class' => \Wikimedia\Rdbms\LoadMonitorNull::class ];
	}
	# To look a lag up in a cache that is in the database would want the lag of the database.
	$GLOBALS['wgMainCacheType'] = $GLOBALS['wgParserCacheType'] = $GLOBALS['wgSessionCacheType'] = CACHE_ACCEL;
} )();
