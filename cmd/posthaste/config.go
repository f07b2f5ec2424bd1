package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/posthaste-io/posthaste/telemetry"
)

// configCommand tells what is in force for serve: it takes the same flags and reads the
// same variables.
type configCommand struct {
	serveCommand
	JSON bool `name:"json" env:"POSTHASTE_CONFIG_JSON" help:"Print one JSON object a setting."`

	parsed *kong.Context
}

// AfterApply is called by kong, with what it parsed.
func (c *configCommand) AfterApply(parsed *kong.Context) error {
	c.parsed = parsed
	return nil
}

// setting is one flag of serve, and what it is.
type setting struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Source   string `json:"source"`
	Variable string `json:"variable,omitempty"`
}

// Run implements command. What serve would refuse is refused in the same words.
func (c *configCommand) Run(_ context.Context, s streams) error {
	config, err := c.config(os.Getenv(rootKeyVariable))
	if err != nil {
		return err
	}
	if config.encryption, err = c.keys(os.Getenv(encryptionKeyVariable)); err != nil {
		return err
	}
	if _, err := telemetry.ReadEnvironment(os.Getenv); err != nil {
		return usageError{err}
	}
	settings := c.settings(&config)
	if c.JSON {
		e := json.NewEncoder(s.stdout)
		e.SetEscapeHTML(false)
		for _, it := range settings {
			if err := e.Encode(it); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tFROM") // a failure is met again at Flush
	for _, it := range settings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", it.Name, it.Value, it.Source)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// settings are the flags of serve in their order, and the keys, which have none.
func (c *configCommand) settings(in *config) []setting {
	given := map[*kong.Flag]bool{}
	for _, step := range c.parsed.Path {
		if step.Flag != nil {
			given[step.Flag] = true
		}
	}
	var out []setting
	for _, flag := range c.parsed.Selected().Flags {
		if flag.Name == "help" || flag.Name == "json" {
			continue
		}
		it := setting{Name: "--" + flag.Name, Value: in.inForce(flag), Source: "default", Variable: flag.Envs[0]}
		if given[flag] {
			it.Source = "flag"
		} else if _, ok := os.LookupEnv(it.Variable); ok {
			it.Source = "$" + it.Variable
		}
		out = append(out, it)
	}
	return append(out, in.rootKey(c.RootKeyFile), in.encryptionKey(c.EncryptionKeyFile))
}

// inForce is a flag's value; where it is empty or says auto, what was made of it. No
// password is in it.
func (c *config) inForce(flag *kong.Flag) string {
	switch flag.Name {
	case "store":
		return c.store.String()
	case "log-format":
		return string(c.logFormat)
	case "max-connections":
		return strconv.Itoa(c.limits.connections())
	case "min-free-disk":
		if c.minFreeDisk == 0 {
			return "512MiB or a twentieth of the disk"
		}
	case "egress-allow":
		if c.dev {
			return strings.Trim("loopback,"+valueText(flag.Target), ",")
		}
	}
	return valueText(flag.Target)
}

// valueText writes a value as it is given.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = valueText(v.Index(i))
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v.Interface())
}

// rootKey tells which keys callers need: their ids are no secret.
func (c *config) rootKey(file string) setting {
	it := setting{Name: "root key", Source: "the store", Variable: rootKeyVariable}
	switch {
	case c.access.open:
		it.Value, it.Source = "none needed", "--dev"
	case len(c.access.keys) == 0:
		it.Value = "made at the first start"
		if c.store.kind == storePostgres {
			it.Value += " of the first node"
		}
	default:
		ids := make([]string, len(c.access.keys))
		for i, key := range c.access.keys {
			ids[i] = key.ID
		}
		it.Value, it.Source = strings.Join(ids, ","), "$"+rootKeyVariable
		if file != "" {
			it.Source = "--root-key-file"
		}
	}
	return it
}
