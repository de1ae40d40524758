package policy

import "golang.org/x/sys/unix"

func stampOf(st *unix.Stat_t) stamp {
	return stamp{there: true, dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), mode: st.Mode, uid: st.Uid}
}
