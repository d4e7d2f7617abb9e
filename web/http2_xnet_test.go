package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// xnetTests has the server's tests of golang.org/x/net/http2 that are not among wireCases, each with the tests here
// that have its subject, or with the reason why there is none.
var xnetTests = map[string]string{
	// What handlers answer: the table of TestHTTP2SameAsNetHTTP runs on both servers.
	"TestServer":                                                "TestHTTP2EveryKindOfHandlerAnswers",
	"TestServer_Response_NoData":                                "TestHTTP2SameAsNetHTTP",
	"TestServer_Response_NoData_Header_FooBar":                  "TestHTTP2SameAsNetHTTP",
	"TestServer_Response_Data_Sniff_DoesntOverride":             "TestHTTP2SameAsNetHTTP",
	"TestServer_Response_Data_SniffLenType":                     "TestHTTP2SameAsNetHTTP",
	"TestServer_Response_TransferEncoding_chunked":              "TestHTTP2SameAsNetHTTP",
	"TestServer_Response_Data_IgnoreHeaderAfterWrite_After":     "TestHTTP2SameAsNetHTTP",
	"TestServer_Response_Data_IgnoreHeaderAfterWrite_Overwrite": "TestHTTP2SameAsNetHTTP",
	"TestServer_Response_Stream_With_Missing_Trailer":           "TestHTTP2SameAsNetHTTP",
	"TestServerIgnoresContentLengthSignWhenWritingChunks":       "TestHTTP2SameAsNetHTTP",
	"TestServerWritesTrailers_WithFlush":                        "TestHTTP2SameAsNetHTTP TestHTTP2Trailers",
	"TestServerWritesTrailers_WithoutFlush":                     "TestHTTP2SameAsNetHTTP TestHTTP2Trailers",
	"TestServerWritesUndeclaredTrailers":                        "TestHTTP2SameAsNetHTTP",
	"TestServerNoAutoContentLengthOnHead":                       "TestHTTP2SameAsNetHTTP",
	"TestServerNoDuplicateContentType":                          "TestHTTP2SameAsNetHTTP",
	"TestServerContentLengthCanBeDisabled":                      "TestHTTP2SameAsNetHTTP",
	"TestContentEncodingNoSniffing":                             "TestHTTP2SameAsNetHTTP",
	"TestServerHandlerConnectionClose":                          "TestHTTP2SameAsNetHTTP",
	"TestServerDoesntWriteInvalidHeaders":                       "TestHTTP2InvalidFieldsOfAHandler",

	// Bodies and windows.
	"TestServer_Handler_Sends_WindowUpdate":                "TestWindowsReturn TestHTTP2ParallelUploads",
	"TestServer_Handler_Sends_WindowUpdate_Padding":        "TestHTTP2WindowIsReturned",
	"TestServerWindowUpdateOnBodyClose":                    "TestHTTP2WindowIsReturned",
	"TestUnreadFlowControlReturned_Server":                 "TestHTTP2WindowIsReturned",
	"TestServerReturnsStreamAndConnFlowControlOnBodyClose": "TestHTTP2WindowIsReturned",
	"TestServerResetStreamUnreadBody":                      "TestHTTP2WindowIsReturned",
	"TestServerSendDataAfterRequestBodyClose":              "TestHTTP2WindowIsReturned",
	"TestServerInitialFlowControlWindow":                   "TestHTTP2UploadIsBounded",
	"TestServer_Response_Header_Flush_MidWrite":            "TestHTTP2FlushesAreSentAtOnce",
	"TestServer_Response_LargeWrite":                       "TestHTTP2SameAsNetHTTP TestHTTP2SmallWindows",
	"TestServer_Response_LargeWrite_FlowControlled":        "TestHTTP2SmallWindows",
	"TestServer_Response_Empty_Data_Not_FlowControlled":    "TestHTTP2ZeroWindows TestHTTP2TrailersWaitForTheWindow",
	"TestServer_Response_Automatic100Continue":             "TestHTTP2EarlyHintsAndContinue",
	"TestExpect100ContinueAfterHandlerWrites":              "TestHTTP2EarlyHintsAndContinue",
	"TestServerSendsProcessing":                            "TestHTTP2EarlyHintsAndContinue",
	"TestServerSendsEarlyHints":                            "TestHTTP2EarlyHintsAndContinue",
	"TestServerWriteDoesNotRetainBufferAfterReturn":        "TestHTTP2CancelledWriteKeepsItsBytes",
	"TestServerWriteDoesNotRetainBufferAfterServerClose":   "TestHTTP2CancelledWriteKeepsItsBytes",
	"TestServer_StateTransitions":                          "TestImpossibleStepsPanic TestHTTP2Duplex",

	// The end of a request, and of a connection.
	"TestServer_RSTStream_Unblocks_Read":               "TestHTTP2ResetEndsTheRequest",
	"TestServer_RSTStream_Unblocks_Header_Write":       "TestHTTP2ResetEndsTheRequest",
	"TestServer_Response_RST_Unblocks_LargeWrite":      "TestHTTP2ResetEndsTheRequest",
	"TestServer_DeadConn_Unblocks_Read":                "TestHTTP2ResetEndsTheRequest",
	"TestServer_HandlerWriteErrorOnDisconnect":         "TestHTTP2ResetEndsTheRequest",
	"TestServer_CloseNotify_After_RSTStream":           "TestHTTP2ResetEndsTheRequest TestCloseNotifyTellsThatTheClientIsGone",
	"TestServer_CloseNotify_After_ConnClose":           "TestHTTP2ResetEndsTheRequest TestCloseNotifyTellsThatTheClientIsGone",
	"TestServer_CloseNotify_After_StreamError":         "TestHTTP2ResetEndsTheRequest TestCloseNotifyTellsThatTheClientIsGone",
	"TestServerRequestCancelOnError":                   "TestHTTP2ResetEndsTheRequest",
	"TestServer_NoCrash_HandlerClose_Then_ClientClose": "FuzzHTTP2",
	"TestRequestBodyReadCloseRace":                     "TestBodyReadAfterCloseAsksForNothing",
	"TestIssue20704Race":                               "TestHTTP2ResetEndsTheRequest",
	"TestIssue53":                                      "FuzzHTTP2",
	"TestServerGracefulShutdown":                       "TestHTTP2DrainLosesNoRequest TestHTTP2DrainWaitsForStreams",
	"TestNoErrorLoggedOnPostAfterGOAWAY":               "TestHTTP2DrainLosesNoRequest",
	"TestServerIdleTimeout":                            "TestHTTP2IdleAfterALargeAnswer",
	"TestServerIdleTimeout_AfterRequest":               "TestHTTP2IdleAfterALargeAnswer",
	"TestServerWriteByteTimeout":                       "TestHTTP2ZeroWindows",
	"TestServerSetReadWriteDeadlineRace":               "TestDeadlinesOfTheResponseController",

	// Limits.
	"TestServer_MaxQueuedControlFrames":                 "TestHTTP2Floods",
	"TestServer_Rejects_Too_Many_Streams":               "TestHTTP2RapidReset TestHTTP2MadeYouReset",
	"TestServerMaxHandlerGoroutines":                    "TestHTTP2RapidReset",
	"TestServerContinuationFlood":                       "TestHTTP2ContinuationFlood",
	"TestServerDoS_MaxHeaderListSize":                   "TestHTTP2LargeHeaderIsRefused TestHTTP2HPACKBomb",
	"TestServer_MaxDecoderHeaderTableSize":              "TestSmallerTableIsAcknowledged",
	"TestServer_MaxEncoderHeaderTableSize":              "none: responses use no table",
	"TestServer_HeaderTableSizeDuringWrite":             "none: responses use no table",
	"TestServer_Response_ManyHeaders_With_Continuation": "TestFieldsCanBeDecoded",

	// Priorities.
	"TestServerRFC9218Priority":                   "TestMutants",
	"TestServerRFC9218PriorityAware":              "TestMutants",
	"TestServerRFC9218PriorityIgnoredWhenProxied": "none: x/net guesses that a request came through a proxy; here its field is obeyed",
	"TestServerSettingNoRFC7540Priorities":        "none: the trees of RFC 7540 are ignored whatever the setting says",

	// TLS.
	"TestServer_Rejects_TLS10":            "none: crypto/tls refuses it by default",
	"TestServer_Rejects_TLS11":            "none: crypto/tls refuses it by default",
	"TestServer_Rejects_TLSBadCipher":     "none: crypto/tls does not offer those with HTTP/2 by default",
	"TestServer_Advertises_Common_Cipher": "TestHTTP2OverTLSByDefault",

	// What x/net has and this server has not.
	"TestCompressionErrorOnWrite":            "none: it is about an encoder that fails; ours cannot",
	"TestCompressionErrorOnClose":            "none: it is about an encoder that fails; ours cannot",
	"TestServeConnNilOpts":                   "none: there is no ServeConn",
	"TestConfigureServer":                    "none: there is no ConfigureServer",
	"TestServerHandleCustomConn":             "none: there is no ServeConn",
	"TestServerUpgradeRequestPrefaceFailure": "none: there is no upgrade from HTTP/1.1",
	"TestServerPingSent":                     "none: a server sends no pings of its own; IdleTimeout ends connections",
	"TestServerPingResponded":                "none: a server sends no pings of its own; IdleTimeout ends connections",
}

// TestXNetTestsHaveCounterparts: every test of the server in x/net has a case here, a test, or a reason.
func TestXNetTestsHaveCounterparts(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "http2", "server_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../internal/http2/*_test.go", "../internal/mutants/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			for _, name := range testNames(t, file) {
				ours[name] = true
			}
		}
	}
	known := map[string]bool{}
	for _, c := range wireCases {
		known["Test"+c.name], known["TestServer"+c.name], known["TestServer_"+c.name] = true, true, true
	}
	for name, tests := range xnetTests {
		known[name] = true
		if strings.HasPrefix(tests, "none: ") {
			continue
		}
		for test := range strings.FieldsSeq(tests) {
			if !ours[test] {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
	}
	all := testNamesIn(theirs)
	for _, name := range all {
		if !known[name] {
			t.Errorf("%s of x/net has no counterpart", name)
		}
	}
	for name := range xnetTests {
		if !slices.Contains(all, name) {
			t.Errorf("x/net has no %s", name)
		}
	}
}

func testNames(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return testNamesIn(text)
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(\w+ \*testing`)

func testNamesIn(text []byte) (names []string) {
	for _, found := range testFunc.FindAllSubmatch(text, -1) {
		names = append(names, string(found[1]))
	}
	return names
}
