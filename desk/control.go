package desk

import (
	"os"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/host/peer"
)

// control serves calls, one at a time.
func (d *desk) control(in *api.Incoming) {
	for {
		f, err := in.Conn.Receive()
		if err != nil {
			return
		}
		var call api.Call
		if f.T != api.TCall {
			err = in.Conn.Unknown(f)
		} else if err = f.Body(&call); err != nil {
			err = in.Conn.Fail(f.N, api.CodeBad, err.Error())
		} else if result, no := d.operate(call, in.Peer); no != nil {
			err = in.Conn.Fail(f.N, no.Code, no.Text)
		} else {
			err = in.Conn.Write(api.TResult, f.N, result)
			if call.Op == api.OpStop {
				d.stop(errStopped)
			}
		}
		if err != nil {
			return
		}
	}
}

// operate runs one operation. All but stop only look.
func (d *desk) operate(call api.Call, p *peer.Peer) (any, *api.Refused) {
	switch call.Op {
	case api.OpStop:
		if no := d.refuseGoverned(p, "stop the desk"); no != nil {
			no.Code = api.CodeDenied
			return nil, no
		}
		return d.status(), nil
	case api.OpStatus:
		return d.status(), nil
	case api.OpSessions:
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.treeLocked(), nil
	case api.OpAsks:
		d.mu.Lock()
		defer d.mu.Unlock()
		return api.Snapshot{Asks: d.board.snapshot(time.Now()), Sessions: d.treeLocked()}, nil
	}
	return nil, &api.Refused{Code: api.CodeUnknownOp, Text: "operation " + ask.Quote(call.Op) + " is not known to the desk; if permd was updated, end the old desk with permd stop"}
}

func (d *desk) status() api.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return api.Status{Node: Name, Build: d.opt.Build, PID: os.Getpid(), Sessions: len(d.treeLocked().Sessions),
		Waiting: len(d.board.list), Faces: d.facesLocked()}
}
