package policy

import (
	"strings"
	"unicode/utf8"
)

// toASCII writes each label of a host name that is not ASCII in the form that
// is looked up: xn-- and Punycode (RFC 3492) of its lower case.
func toASCII(host string) (string, bool) {
	if isASCII(host) {
		return strings.ToLower(host), true
	}
	// Three other full stops separate labels too.
	host = strings.NewReplacer("。", ".", "．", ".", "｡", ".").Replace(strings.ToLower(host))
	labels := strings.Split(host, ".")
	for i, l := range labels {
		if isASCII(l) {
			continue
		}
		enc, ok := punycode(l)
		if !ok {
			return "", false
		}
		labels[i] = "xn--" + enc
	}
	return strings.Join(labels, "."), true
}

// punycode encodes one label.
func punycode(s string) (string, bool) {
	const (
		base, tMin, tMax        = 36, 1, 26
		skew, damp, initialBias = 38, 700, 72
		longest                 = 63
	)
	if !utf8.ValidString(s) || len(s) > 4*longest {
		return "", false
	}
	var out []byte
	runes := []rune(s)
	for _, r := range runes {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
		}
	}
	b := len(out)
	h := b
	if b > 0 {
		out = append(out, '-')
	}
	n, delta, bias := rune(utf8.RuneSelf), 0, initialBias
	for h < len(runes) {
		m := rune(0x7fffffff)
		for _, r := range runes {
			if r >= n {
				m = min(m, r)
			}
		}
		delta += int(m-n) * (h + 1)
		n = m
		for _, r := range runes {
			if r < n {
				delta++
			}
			if r != n {
				continue
			}
			q := delta
			for k := base; ; k += base {
				t := min(max(k-bias, tMin), tMax)
				if q < t {
					break
				}
				out = append(out, digit(t+(q-t)%(base-t)))
				q = (q - t) / (base - t)
			}
			out = append(out, digit(q))
			// Adapt the bias.
			if h == b {
				delta /= damp
			} else {
				delta /= 2
			}
			delta += delta / (h + 1)
			k := 0
			for delta > (base-tMin)*tMax/2 {
				delta /= base - tMin
				k += base
			}
			bias = k + (base-tMin+1)*delta/(delta+skew)
			delta = 0
			h++
		}
		delta++
		n++
	}
	return string(out), len(out) <= longest
}

func digit(d int) byte {
	if d < 26 {
		return byte('a' + d)
	}
	return byte('0' + d - 26)
}
