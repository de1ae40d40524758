package ask

// CheckItem reports why n must not answer its item of a, nil when it may. It
// is what [Ask.Validate] says of that item alone, for a surface that helps
// while an answer is being filled in.
func (a *Ask) CheckItem(n *ItemAnswer) error {
	for i := range a.Body.Items {
		if it := &a.Body.Items[i]; it.ID == n.Item {
			return it.validate(n, a.Body.Verbs)
		}
	}
	return invalid("item %s was not asked", Quote(n.Item))
}
