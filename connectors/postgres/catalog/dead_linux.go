package catalog

import (
	"strings"
	"syscall"
)

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT of <netinet/tcp.h>, which package syscall lacks

// giveUpOnDeadPeers has the kernel end a connection whose peer acknowledged nothing for deadPeer; left alone it goes on to send
// for a quarter of an hour after a failover has taken the address away.
func giveUpOnDeadPeers(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(deadPeer.Milliseconds()))
	}); cerr != nil {
		return cerr
	}
	return err
}
