package catalog

import (
	"net"
	"syscall"
	"testing"
)

// A server that is gone without a word is given up within deadPeer, over TCP; a unix socket has no such thing.
func TestDeadPeersAreGivenUp(t *testing.T) {
	config, err := ConnConfig{Host: "127.0.0.1", User: "u", Database: "d"}.parse()
	if err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "unix"} {
		address := map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"}[network]
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := config.DialFunc(t.Context(), network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			raw, err := tcp.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			err = raw.Control(func(fd uintptr) {
				if ms, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout); err != nil || ms != int(deadPeer.Milliseconds()) {
					t.Errorf("got %d ms, %v", ms, err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.Close()
		_ = l.Close()
	}
}
