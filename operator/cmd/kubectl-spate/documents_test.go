// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: does the plugin have every command and every flag that documents and its own help show?

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// called begins a command line of the plugin.
const called = "kubectl spate "

// commandLines returns the words behind each `kubectl spate` of a text. A command line ends with its line, at a backtick, and where a shell ends it.
func commandLines(text string) (all [][]string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, rest := range strings.Split(text, called)[1:] {
		all = append(all, words(rest))
	}
	return all
}

// words splits the beginning of a text as a shell does. Punctuation at the end of a word is of the sentence that the command is in.
func words(text string) (all []string) {
	var word strings.Builder
	in, quote := false, rune(0)
	end := func() {
		if text := strings.TrimRight(word.String(), ".,:"); text != "" || in && word.Len() == 0 { // nothing in quotes is a word, and a lone dot is none
			all = append(all, text)
		}
		word.Reset()
		in = false
	}
	for _, r := range text {
		switch {
		case r == '\n' || r == '`':
			end()
			return all
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			in, quote = true, r
		case r == ' ':
			end()
		case strings.ContainsRune(`|&;()<>\`, r) || r == '#' && !in:
			end()
			return all
		default:
			in = true
			word.WriteRune(r)
		}
	}
	end()
	return all
}

// unknown says which word of a command line the plugin does not know; nil if it knows all.
func unknown(line []string) error {
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	c, rest, err := root.Find(line)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(rest, func(word string) bool { return !strings.HasPrefix(word, "-") }); at >= 0 && c.HasSubCommands() {
		return fmt.Errorf("unknown command %q for %q", rest[at], c.CommandPath())
	}
	c.InitDefaultHelpFlag()
	for i := 0; i < len(rest); i++ {
		word := rest[i]
		name, _, hasValue := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch {
		case word == "--":
			return nil
		case strings.HasPrefix(word, "--"):
			flag := c.Flags().Lookup(name)
			if flag == nil {
				return fmt.Errorf("%s has no flag --%s", c.CommandPath(), name)
			}
			if !hasValue && flag.NoOptDefVal == "" {
				i++ // its value
			}
		case len(word) > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9'): // a rate such as -10% is no flag
			for at := 1; at < len(word); at++ {
				flag := c.Flags().ShorthandLookup(word[at : at+1])
				if flag == nil {
					return fmt.Errorf("%s has no flag -%s", c.CommandPath(), word[at:at+1])
				}
				if flag.NoOptDefVal == "" {
					if at == len(word)-1 {
						i++
					}
					break
				}
			}
		}
	}
	return nil
}

func TestThePluginHasWhatDocumentsShow(t *testing.T) {
	const root = "../../.."
	found := 0
	check := func(of, text string) {
		for _, line := range commandLines(text) {
			found++
			if err := unknown(line); err != nil {
				t.Errorf("%s: kubectl spate %s: %v", of, strings.Join(line, " "), err)
			}
		}
	}
	pages, err := filepath.Glob(root + "/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	for _, folder := range []string{"docs", "charts", "config", "e2e/demo"} {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && slices.Contains([]string{".md", ".yaml"}, filepath.Ext(path)) && !entry.IsDir() {
				pages = append(pages, path)
			}
			return err
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		check(strings.TrimPrefix(page, root+"/"), string(text))
	}
	if found < 100 {
		t.Errorf("only %d command lines were found in the documents", found)
	}
	var help func(c *cobra.Command)
	help = func(c *cobra.Command) {
		check("the help of "+c.CommandPath(), c.Long+"\n"+c.Example)
		for _, sub := range c.Commands() {
			help(sub)
		}
	}
	help(newRootCommand())
}

func TestWhatThePluginDoesNotHaveIsFound(t *testing.T) {
	for text, want := range map[string]string{
		"`kubectl spate capture lab --port east -w - -n tests --as jo | tshark -r -`":  "",
		"kubectl spate rate smoke -10% # slower --by much":                             "",
		"kubectl spate compare a b --fail-on 'lost > 0' --fail-on \"x<-1%\" && --none": "",
		"`kubectl spate run -f tests/ -R \\\n  --wait --timeout 15m`.":                 "",
		"kubectl spate completion bash":                                                "",
		"kubectl spate capture lab --als jo":                                           "kubectl spate capture has no flag --als",
		"kubectl spate run - --wait \\\n  --juni x":                                    "kubectl spate run has no flag --juni",
		"kubectl spate receive tap -wq":                                                "kubectl spate receive has no flag -q",
		"kubectl spate validate x.yaml --as jo":                                        "kubectl spate validate has no flag --as", // it needs no cluster
		"kubectl spate import trexx x.json":                                            "unknown command",
		"run `kubectl spate walk`":                                                     "unknown command",
	} {
		lines := commandLines(text)
		if len(lines) != 1 {
			t.Errorf("%s: %q", text, lines)
			continue
		}
		if err := unknown(lines[0]); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestTheHelpHasTheNamesOfTheFlagsOfTheConnection(t *testing.T) {
	var used strings.Builder
	root := newRootCommand()
	root.SetOut(&used)
	root.SetArgs([]string{"capture", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(used.String(), "\nFlags:\n")
	described, named, found := strings.Cut(flags, "\nFlags of the connection, as kubectl has them (kubectl options):\n")
	if !found || strings.Contains(described, "--as ") || !strings.Contains(described, "--namespace string ") || !strings.Contains(described, "--kubeconfig string ") || !strings.Contains(described, "--context string ") {
		t.Errorf("%s", used.String())
	}
	for _, name := range []string{
		"as", "as-group", "as-uid", "token", "server", "cluster", "user", "request-timeout", "insecure-skip-tls-verify", "certificate-authority", "client-certificate", "client-key", "tls-server-name",
	} {
		if !strings.Contains(named, "--"+name) {
			t.Errorf("no --%s in %s", name, named)
		}
	}
}
