// Renders or lints a chart with the packages of Helm, without the client of Kubernetes, whose compilation takes
// most of the time of Helm's own. The first argument is the folder of the chart, and the second one a file with a
// JSON array of runs. Prints an array with the output of each.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"k8s.io/client-go/dynamic"
)

type run struct {
	Lint bool `json:"lint"`
	// Later values win, as with several -f.
	Values      []map[string]any `json:"values"`
	Release     string           `json:"release"`
	Namespace   string           `json:"namespace"`
	Kubernetes  string           `json:"kubernetes"`
	APIVersions []string         `json:"apiVersions"`
	// The objects of the cluster.
	Existing []map[string]any `json:"existing"`
}

type output struct {
	Text  string `json:"text"`
	Error string `json:"error"`
}

func (r run) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	found := dynamic.Objects{}
	for _, object := range r.Existing {
		if object["apiVersion"] == apiVersion && object["kind"] == kind {
			found = append(found, object)
		}
	}
	return found, true, nil
}

func (r run) render(folder string) (string, error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return "", err
	}
	version, err := chartutil.ParseKubeVersion(r.Kubernetes)
	if err != nil {
		return "", err
	}
	// As Helm's action package does before it renders.
	if wanted := chart.Metadata.KubeVersion; !chartutil.IsCompatibleRange(wanted, version.String()) {
		return "", fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, version)
	}
	capabilities := &chartutil.Capabilities{KubeVersion: *version, APIVersions: r.APIVersions}
	options := chartutil.ReleaseOptions{Name: r.Release, Namespace: r.Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(chart, r.values(), options, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.RenderWithClientProvider(chart, values, r)
	if err != nil {
		return "", err
	}
	names := []string{}
	for name := range files {
		if path.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	text := strings.Builder{}
	for _, name := range names {
		text.WriteString("\n---\n" + files[name])
	}
	return text.String(), nil
}

func (r run) lint(folder string) (string, error) {
	version, err := chartutil.ParseKubeVersion(r.Kubernetes)
	if err != nil {
		return "", err
	}
	text := strings.Builder{}
	for _, message := range lint.AllWithKubeVersion(folder, r.values(), r.Namespace, version).Messages {
		fmt.Fprintln(&text, message)
	}
	return text.String(), nil
}

func (r run) values() map[string]any {
	merged := map[string]any{}
	for _, values := range r.Values {
		merged = chartutil.MergeTables(values, merged)
	}
	return merged
}

func main() {
	input, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	runs := []run{}
	if err := json.Unmarshal(input, &runs); err != nil {
		panic(err)
	}
	outputs := []output{}
	for _, one := range runs {
		act := one.render
		if one.Lint {
			act = one.lint
		}
		text, err := act(os.Args[1])
		made := output{Text: text}
		if err != nil {
			made.Error = err.Error()
		}
		outputs = append(outputs, made)
	}
	if err := json.NewEncoder(os.Stdout).Encode(outputs); err != nil {
		panic(err)
	}
}
