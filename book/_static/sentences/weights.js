// The weights of HN-ATT, written by attention_course.live.sentences; tensors.js reads them.
const SENTENCES_MODEL = {
"alphabet": "!#$%&()*+,-./0123456789:;=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~",
"largest": 22,
"octave": 8,
"smallest": -80,
"words": [
"<pad>",
"<bos>",
"<eos>",
"<unk>",
"the",
"of",
"float",
"int",
"to",
"str",
"or",
"bool",
"a",
"if",
"in",
"is",
"optional",
"true",
"for",
"be",
"number",
"and",
"as",
"x",
"name",
"whether",
"false",
"path",
"default",
"data",
"this",
"are",
"which",
"axis",
"type",
"like",
"size",
"will",
"that",
"return",
"used",
"width",
"height",
"string",
"shape",
"value",
"complex",
"file",
"font",
"between",
"y",
"none",
"figure",
"tuple",
"points",
"not",
"returned",
"s",
"along",
"an",
"index",
"specified",
"values",
"sequence",
"element",
"each",
"list",
"box",
"image",
"otherwise",
"function",
"on",
"coordinates",
"contiguous",
"boolean",
"can",
"code",
"elements",
"given",
"subpackage",
"e",
"subplots",
"from",
"dtype",
"out",
"n",
"two",
"has",
"units",
"where",
"glyph",
"message",
"object",
"rows",
"output",
"sub",
"within",
"text",
"padding",
"fraction",
"tolerance",
"indices",
"ints",
"when",
"with",
"g",
"legend",
"uint",
"matrix",
"total",
"should",
"position",
"degree",
"new",
"fortran",
"but",
"input",
"argument",
"one",
"lines",
"func",
"grid",
"row",
"same",
"at",
"match",
"distance"
],
"labels": [
"bool",
"float",
"int",
"str"
],
"documents": [
[
[
"str",
"the",
"text",
"to",
"be",
"converted"
],
[
"int",
"dimension",
"with",
"the",
"pad",
"area",
"to",
"set"
],
[
"str",
"optional",
"path",
"to",
"the",
"output",
"directory"
],
[
"bool",
"whether",
"to",
"return",
"the",
"minor",
"or",
"the",
"major",
"ticklabels"
],
[
"bool",
"true",
"if",
"backend",
"is",
"valid",
"false",
"otherwise"
],
[
"str",
"complete",
"path",
"including",
"the",
"datasource",
"destination",
"directory"
],
[
"bool",
"returns",
"a",
"single",
"bool",
"if",
"axis",
"is",
"none"
],
[
"int",
"the",
"index",
"of",
"the",
"contour",
"level",
"closest",
"to",
"xy"
]
],
[
[
"str",
"gui",
"framework",
"such",
"as",
"qt"
],
[
"int",
"optional",
"the",
"number",
"of",
"dimensions"
],
[
"str",
"name",
"of",
"backend",
"to",
"load"
],
[
"str",
"name",
"of",
"the",
"calling",
"method",
"used",
"in",
"error",
"messages"
],
[
"int",
"the",
"index",
"of",
"the",
"path",
"segment",
"closest",
"to",
"xy",
"at",
"that",
"level"
],
[
"float",
"minimum",
"square",
"distance",
"of",
"p",
"to",
"xys"
],
[
"str",
"or",
"scalebase",
"the",
"axis",
"scale",
"type",
"to",
"apply"
],
[
"int",
"int",
"consecutive",
"indices",
"of",
"vertices",
"of",
"segment",
"in",
"xys",
"where",
"proj",
"is"
]
],
[
[
"float",
"optional",
"y",
"direction",
"scaling",
"factor"
],
[
"str",
"complete",
"path",
"including",
"the",
"datasource",
"destination",
"directory"
],
[
"float",
"str",
"function",
"used",
"to",
"format",
"the",
"numbers",
"in",
"the",
"labels"
],
[
"bool",
"true",
"if",
"the",
"errorbar",
"has",
"x",
"y",
"errors"
],
[
"int",
"the",
"axis",
"to",
"which",
"sl",
"is",
"applied"
],
[
"bool",
"set",
"stdout",
"and",
"stderr",
"to",
"subprocess",
"pipe"
],
[
"float",
"float",
"the",
"position",
"where",
"the",
"label",
"will",
"be",
"inserted",
"in",
"screen",
"space"
],
[
"str",
"the",
"library",
"name",
"as",
"an",
"absolute",
"or",
"relative",
"if",
"output",
"dir",
"is",
"used",
"path"
]
]
],
"substitute": [
"str",
"a",
"string",
"representation",
"of",
"the",
"object"
],
"testDocuments": 300,
"accuracy": 1.0,
"changed": {
"other": [
0.2917,
0.0
],
"optional": [
0.63,
0.64
],
"most": [
0.7867,
0.71
]
},
"model": {
"encoder.words.embedding.weight": {
"shape": [
127,
32
],
"scales": "!DAAADJIKLHFFIDJTGCIIDHLKJHIFEGLKMDHFGKMFEJLLHJFLAFIFHJEHKGFKGFJGKHIOHAGFHFNGIGFIHNKKLCDFEFIHGGDHDCJIIMKGGMJIJMEG@FJCJEGOLFHEEC",
"weights": "99999999999999999999999999999999596;=:>=8?79=I0/5@A:86=66?DP/1F54BCE-O5=+4550C8A8@29A6C=7M)9019@K0HI!,3C80;?=/F7;->+:C171+J5CDKCA2MED9@4=:188*GB2:B6@;353!00?AF?I-:I60=B>72C?+A*:07->9A3/8P@C7089>8B=C0K11:B=082P=CG&J=,B35J;786/6/66>H#ED.A7=9-*-9-90=3:KED2=?A464;968>;6:6?1?D?=C3#B=46?;B79B3D4G;D./G>>0GF3J>30@8@/07,:=$KA4C87=E8=N44?6A7-I=6F6-897;9062=9I7=NB64GBA9?O#)D3:?J9EGDCL5&*-%AC*>:DA70:>DJ=18=D968@!=5B2B3;D9:GD9:A@32@*6F>=A9C46?5,@08?40@3;=O7.->@=,A:C@5KC=;G7!>150A.(;>J=?M.491-7@C#7I>32D45-=-.:1=;=E0-7.I/5FA+HG+8)/G,1M.;9J(AE13IIE8$=-+/6CB,7,;52JB2;J=24>;.6E?L3#6-,DK+269479=H@=2%77:B;1>;37G85JF46N.JA48C7;0N8(1DN.;>E9F6%D:*5;6JF9?7>*7I/=J)FG#M>:@C)>A635A,6==@?C8E7B1.-A39/=B6-7::5F025=L;3.,0A#K5@:A?,.;=;>2G=,;4=58+24G7(6FD>:O:;>7::@5H0(6@;;8-D?DO+OB3>*5B7896C3MFA(+HA=2GI$EF@0B6;806#)B7BG=A05;93>1;4>C:;A?602614=G?2+39)6O9*:54+3G,>I:05A74$73/63:;6?:@39N9M,>;I05=C=+AF2O@2*A?8-3;,AH$B>3CB2H?!9L3;7;B>F9@:>K6=8*9(0A2GC9D=@I636B&0C)75EO?2=;,714527@;5BO;;E@0N@:;15545:D8.D4/4:+A9366B2G2-99:05K,>B89=8>D+65+=6=;3:A81>O51/83=*G)FL2:C??7#74*A(A35CC:8:5D356B/:>$DI9>;4=>,66.@.802A69=>3=8>L,H#=I6.69@?AE/204/3!C32A,O?==8;0I5B7B200E=#@=C=C;*PF*1$4L6=D@F,?>F6?4DEB;9@?>:-7=32765;DODD-@58+E85>(9@3G5867)99%*0BE8KOE9>:>@(EC8&F4JA.>90NI0#6-K+.6$>A5IOKO>?C;F6>@4?819=5;>=84@AAA;#5?52B0@=DJ01N>?C-=C4IM74A291=((0MAFAJE3-!M18:+C?8F=(C=8/+7H/;9-@>D@9=>D4%H2067=.0EH4?,N8E?2:=.6#BG;D>@K9E@E60F?8.KI,JE0;N:7831/:>2@C9G:;0?&E4>11>>F7=-G6A?#C@6>:DP;A350I56>A5J-.>7.B*0DJCF-OH5D+(E,2?.4D/27=E,56=44>,L#@6.:8@:?=78&6B=A39O/(7@L8.F>(@D7)N::0>(67;D;B6L?7IC>.29C80HM)OC./G8?5,4#0D/>G;D4E8:,5IB0L97=1:B42A-/=8(F%6OF9KCA,2=127>=.4AD-F2J7:94@7%-#@;:9EC;@=@>0@71=4@26F557;(0D>=207D7;N4H#9:6/IDD41JI@C9H3M1)0==5)??CG->2C9@:6A8:C;=@96.==6/(8J;5$9=89A7143?-7E+=H12A1?J332$@.?4-;DD7AH8>5P9644K6G9DK1F09:=9>8-823?7B587#121?8G#4ID1>6:9-3236.B89;5?269:6.,H#8M*FE*B;7=>3,4#;)G5*IHJ4C9?4961,4P$FN>*300J.B;6588?7/=:/>N:84,?;3=:?A.032=8K9C>!3745H/G:6.746:947C#>C;9471>%732C1469>8:8?:7=B:2+H=/-8K%4N,B3J-+9@K@CE2:.23)44B8)&F/0AC677=;&B;-F7H3>&B1;7O6.(.B(?D(MI&@=071/%9470D-BKNF1?.E>8=>)2=2;B4652J6574-9.,74#@7?CGJ/4/F,8D&HI2A7:>C111#>0>/-9IO3=FF86O1@6J&6:A8:::=/?6.A9:C0(4*=>F;86:8;??/5A5:5;FD#932;12>:+:787O3G8F@=/9;H90DA3OG6.C2=0,3*B@.LC3FJ)J?N-*0?D0KH2KE//P5C,./,CB1H@2?/6;AB@1+@F/=9.C,$75:5,89(D;#N?&6-15(78I(4NB56C:0#636;5AC7+22;;P/D5/D3,.C?4#H85F:@*=;.@:,/)9L>=A=1O82MF$9,2@80G0#8D>D9A77J1-==-G-/=@7I.9-7I6244FJ:;3#D25@41B;:3H>;01J+;G+OF.>759=..8-72=/2GHJ6A:?1923A:?$5=;@>??=&56$E.@C9>8+29?;>21A46E>=6,GA796C1M=(EG#@;:J2@B==87B=7=1EN69D.=.04C728?5B1;?8;0;020==9F+C48==:IJ06;9K/:;598#-D4B930725B%DO-=80=@(27(G-910@C8=9/@?;4O,39D;36A=-:J@8?;263/898@A88:9=+>0C3E6-:;9651J:CA+OD,:./I6588>30@420@>5/LE+83G3D?75;!8AC>?>4A;=:585=16P214?4=&=86?89@9;87>=E8,;$>:6D/>9>68=6/16-3;9E=:?@B+8089B+N2*=J.2.M=>56J=6-,M.,4)AGD2B20>C;25G3:;P+1?8I/7*.B>*@0-?)39I;=A37;@)P05>A5A;7?JL@-MI>0+=C7:K5B?6L88?80!+?7$NMI??>-A./0%2?P=MB9A+=4C2K47116!22;6-D$AAC8+5J.=FC@4F>8;/A476DCEA9;7@9=+*93A4,O=&:;7NE874C9A1::8@A95E4=247*1/4B:IDD+7A!3?,E;7A/86B,/.&D1.;58L5)I8=C*5A.0D5E>%::!;ND/F36?:8-6H>5C;E?5?;*0K+GJ47B0@612A!/#.;4&?=3>D9060D&7E282/>;,>I0*=5>;9)6&D>?BN>>2N@7*@9M90P=7IND-8-48$@0-B%@>F?>8>ICC)*KJ1CA/IF$0C(;021+.C3N9JIB/4G158H8%-D>/C7P=?E*9..43=CD71@B/;O00B6?-$JD-M@F2A/*?;#.2DE@?=H)988,9N8:N516=C5)A8+=2>C7=>6-?H@/.3F-7@*LB-AD28270?8/0D16NHB:>0?/@7+*B=769B++@4;:E-;?7KE8/28#874;,*M%6O+JM#P=0C5.#:(;+C%3;?;?D;C5/9A23=+JI/=D9@?,#2*M/9523;:6>:G2:=:02H.>J9995:?*6:#93;@1E@96E>A50-B52@?O;/6D5DD=8?48&884BH;E>-@/C(76CO/43F6::+7C@1A0CEADJ7@12452,#:%*B*J=1B>67:7+;&7,C+4ONM7@,B+2/A)3D.AN1?@4@=*15&@#?3/CG>3>;B05/CE5;.GM.D108084>..>805HOAG:,D)2#6-4O&=I50>?:5/1-44-C3=9@O%?M9;C,H=.395?MG559#1/9=IH9E==40=C-C=2=3B9#J(,77F@1%AC>=/JD9E)6D1(8395A>31?;8F6=6:E9/5:-@62=06:+@;O;H2=CIB4D@/&OJ,;36/O,1:1)7?-E6B+5I8@;>3.E;#8?>1=BN?CD?6)/4EC=M>,@H4E?@;9EAH3F>-BP+0B8M44;80D2K4--?>5G06G>H50D?-O=D6CB4/1,36?G@@AE561202D#C:45686A068-@/380H>>8?4;6#,C76;(K;-II2:090B,D(E3>=KC>C$C40*=.4E/CB.3B=CE)):$A&)>-GJ?4;4F7;796A1?,;C36E0$@@/86EBCB$6;92C3E0>A92G*:H6;81E>.963O/$>41=*@B@8>7+=539A=O4?3-=::.A%&=,0)%ABAEJ@F64C/.B:>@>I768B?.H:#>=*6+JPJ5J;"
},
"encoder.words.rnn.weight_ih_l0": {
"shape": [
48,
32
],
"scales": "POLILHMKIIGNGMQKPLLKIINJOHJPGOOOLNLLPFNKMKKJJLOO",
"weights": "-E6,:=9875G#*G4=3A.@GGEL:-3-/4E&P8H?B1+L6/@A9&>;D@LG2H#6=3.5K>5=A#3G.,H>;?+KO&O541@::/-.1:D@CI@J//%@747$KC*AO.A?017)22;-(H@>E2KE?3676/:*IB!GA4K7+78-;#51&=D:?F;;@=3N.659C?(>927+/4;=4?F177?@,+??=>;374D26E:-3I18+C&2C(EO7;4,82=55;G5B8;H#=A3>->A=@@9G.1L2+..D:5?IA;I6OC/H)A:9*FB;@H62B2,26B=;?4@34I.B07-B@98>;6=+5+;P%2;39;+>7?/2$!1=&82A?:E9*06(+@4@@=*5G>?0+0?.F-+8?6/9/77$J5.59>78@EGN8:>#6B8:,-I90D?;D&GE4=-0>A(BLE#>!G>:3IE5;54;F4>.%P.4D18@F:?9KBDK)8>50@6>7I.?7=:5>C58D8@-?.1F72H7/5#85>=76)C/5L2D9088+?5-2O-):D2-1?I:BAF40/D-4A/:86A67>.:5?5.C?->09O9?AAHEBA@56D-4O1=64J@M1G>H>K?*++>::.C;>C09@7>?F34-827@9?:M8=5#7=67A0C%,G=26;9=29=)?BB2K:$B8&3/6DD4NA06#:-:?2F=451?24;.@+;HC/;44O$0LF2K34@B8F.94:881&F3I?#LI.HG?91-?=B6F59/>8A@7;B7O?/8=6D4*?(:D0?L6@>784.7H/=7A!-B8B4I&.@LIH;/:8%*C1A+7N/.BC=6+OC&J18%IA2A5)0BC8@H?E.55-MA?F==D.6@07>7$/GE3L>C),/4(7=/%B0.J46A-CC.:+/*:$.7D5:)CK:=O6?G>3>>=@,,E/41=CHP9D5;;B73)28/?)>M@-M@/C87>6G4=7:A0IM?&C>4?#H3*591.>#5K$B846385/8;784=B468BA68E:5591C;>&7K4/-I4?$=-0I&>E586653::::8O6AC980B69+58G>2:0FG4B,;>52>2@.7=?9:??=+OG(I625A0088&2@@5J?@BB5H>?2-J)/>;D2A:P@LF2G78=*40H990I@F>A4,O227E=+;AH4CD5C5+53,?E>;9E=E:8D.O:+G)8?.?AIEF?D@A;/946C;20G387E>=$/G00:35G?7H3OC>C.1>519-4/+?3-7*:=)FI#LE)/6#28@)$GB6J;CO>==2;4D+DE?16DDD#32-M.4G4AA$7@87#8&?8LL4994H522,=64>&;E%MJ>K+9:67>/A(:H>?BC,194?:7D5>HJ82.1J$8O6=J340H0J..K:7?./P>HJ1O?2B),M.:8%@6?=F45944$OF+A>/2F42=:#>8@G@24=B3M3?+5N.9@/89E;?/1EJ7-@5%1$@@H@18;@17I#9?6/.07B58()C1@>@0H?-@L62?.C+>:F61J,34+4EA3:8NK7=31G#@C4B?G9:6=:>@A52;B>/716L14C.08#@=;:CCF8C:$H,59DF:??@??B42538@:,F;+="
},
"encoder.words.rnn.weight_hh_l0": {
"shape": [
48,
16
],
"scales": "EFHNKJGMAEINLFGLMKOJMIHNMQIMOREMIJPJGJIMGEHILKJK",
"weights": "/3:;2?H4**%=$,PC7D?5)CC)6/GG33ANM6:,!KE+>#C2;;JC6$108C7HG@=)>D/3C?L/&D9)598@1$AN*7.7;EF9I=C,AN30./&O84DHC+.%LDG(HPI4#H3*0/@E2)BJBGE+%-9O/KJ+C5$>@BF03G848;H-2-N62,$8@8CH;9=09B0#>CO:4351);?D-*>L8,&,6DBIM4G$EC,&)D5O8L=#-:2I:;F?#D?:/>D;?6$@AFK7B#&6:DJPM4H-H86-BC@51OE7I0@8?9I-J0#%+KCEM#J&N0>&=,**0OB:M&?-L7;$*7#9@?=7E*9%AJI.M29(&OE8E+N1F475JGC1/C;!63J;D#E;K%#0=DL3I)?9@125P75#2NL/B+I(D8D2GE9-2E6#A/M?8)F>O952.CB:80H?=2227CG?4@D#E-JDAAP296441MIGP&E(J@62O=904E>/56HA>+B?M57)*PA7B)J2C75:DM=7?9P-L30@:DA8OFA0$N919+OH7-HBKH:4!H7.:(B6A/36>OG7=00$)38J5-A?=OJ=331/,4?B6.>I5JA@A)9$//3G&0>F&/#G>>/N59..3B2*@9.>2>D9M364IF3!3-$B,8;2:148JKA.7%#,B26M==:/9C2%D%?9>FIB86E4L:6$6,;BN%&G,:DO64=EI#)3(H?IB8I:B-91HDE0)LD,7%HC@2EP7.-15KBDH=D#>:.!*2!FC;HJB3#0=KB5/6@8.CO4@322ML?95IKB?00!4F4G(3FG"
},
"encoder.words.rnn.bias_ih_l0": {
"shape": [
48
],
"scales": "K",
"weights": "?1I;:=DE77@:;B>E75977G50I:=:N@2AA3579JE:O/B5F9;."
},
"encoder.words.rnn.bias_hh_l0": {
"shape": [
48
],
"scales": "G",
"weights": "=5G76O6F=8C?GBGC@H+@6B.>G;DAND.32C:)*OM1J2I9OEJ."
},
"encoder.words.rnn.weight_ih_l0_reverse": {
"shape": [
48,
32
],
"scales": "LKIFMJJEJHFMMJJHLLMPLPNNLNIKLHNMFMHJMMHFGJDHIJJH",
"weights": "5:4.>=65;86;3?74#=/1H)2>6;A9,;>38>=-G?4A5>M*$G-H3P@C?F*E5/%$19>5%/0-O175@D2B==&=.30=C=;5>DB:/09+8NC/>29=*I@4;8-?@78I*;@2$*+4=JI!+H6#G=D14:=-&L+=1O,AH:DK64&(2*30@@75F,7?D99;?;?O*D49D+:>4@E66>5F>;>0HA+F$+@A3;066B5O=I5AE12=331760F)=(LHNC$L/-@88AGBHFD9+!51-+?1+6.:>4C4@F$KL-5@5/73/?;/:C?C9?==8=O?@(;G6DJ867FDGA7K9I=C*$+/*CG/L?53:7%EE9K1:5?AL;AI6M(I;*5:K$&F,>2/:>E(5N;05;7;%;-.B3HJ856,$1@88B8(69=332;*3F!G2G6?7C7GD556=1/*FB9:NA3N)#@4C4:CJCAI1J:483)1@)B*,=,80AA7@;89+300H>097N?.=-)L$?M,*B(174E9=DE-(H//8IC8H@FJ23@>#5F0>2=E-;?F;@9F>7B=;7?C-EC8,)/>;;O@905G(-O7DN4?D6E9/2;691B5074B;HN6F;;C95AE?7:;E-@584J:3:88/#3>7CFB47.D1>=:?>3>@28-:9F?2LK32$4D/?A6303:43O.EE7?F+H==4>9=64:+58J=@?A442@/8K2CB;66=G30466;9;>2:9=.@PA454D:7>D98-=818;?2D:,G@1=.;P7=E9A90F27@B:62G?39395OB-C=/4%9B=>E>I=2890EF=C3FI,>68/N;;G?31-;94BB8>;C?:6=:544=91@=92A>?=6D/!8::DA9D9J:AC,@;HB035D=;9.@E(9;*.7#=5.6@ED98;(P4=;487D=D88;A82;87-0C3>856,A)7L5@6276=9.>0I66:L51$9=6BPA18@9O49B;9F6>A210=J@7;M>2;;309I@>1:9.+C:I=2@;4L59283D/6?,0?E/FP@97;A84B7CC7C?.;;7:@64@97/.;G1BP8LGC46G>G#3=@,;29KC8G%O4>F/-9N2?67722@?;1=;>3@?3553-=A*=:AP=3?2%8F>F=A@#P/3?>8255C=@B@C3B9B74H61=::21:91B2-@308/7G81>>:30EC8:01$52J?1A=80/>F%/H1A0F0/@72P8A4564819@8:655D00A5?6;AB384/H::1/9D35P6CBC+93O-/>N)-I*::F06994K>18.$@@/08::340F#-;.@O?57=2)5)2>:KF1=2.>4+02D71B3-A9;?74N7,I)6;6D@=;A-$:,275860!@7>9?G-=%641A09?DN::@8255B215BO-J1)=-54M,;7KA3-%;P1D=9>O5@3&536:OB021>3A-3;=>2.49NC=A/.B5=3C7D0?*7?5>@0,I=9>5:;3LAHC=@!3=8.6A13D)/1?@?2+OC6I1:>9@B:I92/=5F5H*HL4;FB?045.@EB8=DL&=!9K3;K48CCB3E%=(!F?B7=>CG:E8D23B;=0M,.2"
},
"encoder.words.rnn.weight_hh_l0_reverse": {
"shape": [
48,
16
],
"scales": "DIFGLOHEEHMFMKKICFHLONHLGIGKJLLJGGFNCA>FJFDICKJF",
"weights": "N93=50=9AE6J3D5:E>O4J5=DF./-O4+LACF84!EC55)7GG%E>?L>I&IO547=CC5KJ?P674?9@A54AB9FC?D6>3F@D3A4OD2J>7O8:,?;D;;??N3E>5ODKHA7E54.3D!D5OE)J40E0L=L6@;H8I;6?:GE8O>5218:@@FC;2EAP+90L90D7OC*9*:?,E9M8BG>ELH-C#ML8=00?27EJBH;D!@B;:68:09C-37.F:;?0?#0+106MDA8B5MO?4=+B?7C(LI;?KAL1NAMI)D46PD6BAF7*C29M/#@9ON7L=O=M?*FK8#@7:/7@N?45G3I9;D187B8#=02?4?;@8?3FON@G2JB?E5BJ;5E8COH:2DEA2-163;CGH7>B6?I84#3=8-4H?4CC=AB/O7K?6,==NA@E&GOE7!=JJ+>ND138C:63/7.4A?:6E9+L8DHC63-6>#7EN@AD/9A6O1@G36>&&.83O,+1>;B)9@#BJM9J.FP79A0F:8PBI::;5;P=A3:;;&=+/>A67>63,8>?1O.A>:P:-96L>N>E:2?@1:9739%%?5A51OA7FD0:#=8C995@>:DBP8%A>G9*>,,L)26934-L@8;9:6@6$#.C+1!:7F&BH1MMLGD=5:6-=)!767=5C>6B;G7379>#7F*G@EB79ON:-8FK0J;H>&4C:*7E/8@#72A:A.3>>O=D)@FN->,J9,M05=).%$+D#DCE//BCE?8>#4;?>(;G23H)+5$CG/0380?)(9*9-(D8#-5A?=68A5;"
},
"encoder.words.rnn.bias_ih_l0_reverse": {
"shape": [
48
],
"scales": "M",
"weights": ";4;5(!:/;44601=48H@D39=EJ8CF8E1;;043;B::697655=2"
},
"encoder.words.rnn.bias_hh_l0_reverse": {
"shape": [
48
],
"scales": "M",
"weights": "2522$+9:936A*/=/@GBE5?7GH9C@EE?@0742:944=/1:95J0"
},
"encoder.pooling.query": {
"shape": [
32
],
"scales": "G",
"weights": "-O0@6D.6.F8C5D>BK#D/H-H,GG&(E.F/"
},
"encoder.pooling.attention.W.weight": {
"shape": [
32,
32
],
"scales": "IMLHKKMGGKHKFILILLLJJDKIJJLLJIKJ",
"weights": "G8A#.O?%F(JHGAG1-8044@24011?5:D,6C=::07;#8>?+-0I=>?8A8A:8?==9.8@F7;%-CB)O3B?H4>4011;5953;;785:8)+4AGH-;L#J01&?%IFCFBH5G:63A?=6;@E48-4DC*O-;;F:B5/3566729>:8;7C;2/=7G@*;C$D.4/81C;8?8E?@54=98B4;FE9?16I66O4C:>A@4;7:82/4=9>-4:>=1C?C/7D;,O2I;CHN)944/(32:A6807:36D55%6N6*O&FCHEM8.39:718=B0(=.N6+155JA/6G#E34,/,:::@>:5;>>@D?@26GG621(I>&P&L7H2G8*4-15907/208/E>,,;7I?%7E#D)1);6:>5F;9;D:27G;B18HP0?(!JC-M,PBKBK6&.&/04,:6@323:@0(;BG?#.E(E.4,9,BA?A=>>@A:>?8B,9K+@4NE/072F&:5@/:D/CDADB>95=7=>4A/37II#6B)J,571/FB9KDGAA73>>BD87D/43D9$:=%A+2,4:@>=A7>=;=79DB=36CG@600D5/O6@=EAB14:78.4:8=;008?=3498F3.6?!=07.-4A;8?39;7:4?C@:0?=H;8$3O8.J%JEC7>267+42=766A3C4@B.,@;NF--J!D36-5)>?@A@?6B:>9EAH3=D?++(0A.OPI?#KO.#&A2/5+7@/J(+3O41/59OB#2G$A3/+?5@H?F5===;5;=::/:HL75.,MB%M#D9I:I-/1(=+;/2022>18A1/C?II#3C#A310?1?I:L4H=>;6?C@H94J+>9HH#2A*F&4.56AG?>1C8F64==:A,9D?9;18C;4P1H9?=>/:;2?-26@C=6.5K64@:;/4KB3O2C8B:C20;172623A=824?82416D8/@L#=)&432?7=65G>7169:A>-A6F;60.DH&N2??DBE/:165.;1?77(;-@A*06:FH#3D%F*3/62CDA?4D?B?43:4D57BC42-.EA,P-FD@:K00;59.>-099,@3:?4"
},
"encoder.pooling.attention.W.bias": {
"shape": [
32
],
"scales": "E",
"weights": ",D5?.8@0#A3>2=A@-AOAC7C9/=A=H4>;"
},
"encoder.rnn.weight_ih_l0": {
"shape": [
48,
32
],
"scales": "QJKHHMPHTLLNQDMJEGIIMIJKGIFGGJFFJKIIGLKEQMKIIIDJ",
"weights": "*-%:;;P@H2-=>CL2;;;3G3M?4:0891:401)19/CEAA9@57=:51*&6B896931/0P:%=;OG19?2?2=8@87D?J;;;CDE73;C>0J.-:2D99?6A!A8CD*/9.;8262>AF+=)=F3;52@7@:E,703H#2+2.;/:,%1AH456J+B>>$5?55>,N.=;:3,250.B2/@:>61@A0/@8JO0/CB@-:/A8;D4E3:G=D.8;)F1DD3127;K>EFB=4@H33C:C65O-85=F;;5M9/::DO,2A8D062K3=:89979::7:;286?=6%#6@35=7;9>B8=.2CF/8-?@:/85;42:266=K67C475>>D32?5:!=HC@6*20G:?B%D=OL11A9A-;1B/@LF@BC:EE??;9GE@L2@@BO24DGB814D+.8/838B;50846A=D57,AB3>DPH67*3M56F:C16OD996K7N;PD8&-6324:@5=@>0K/)B/$57D;03%5+#A(CC5+83-E1DL7;04.(56=3O/(0:I?+=G4O44>!DA7@3C6*32K0/)E@B=)G/M942;35;+&;2AEI*556@H*0*297=3#1ED=2FA.3C?F>I9754?;6=;56:2+A#2B2@.8B95AF=F75=+>69AB8CB:62107A#&>)5436@,33/A39K24.5-8B8AFEBOB+78=G:BCG.BHCF(9N@1L@I7=-=0/%150O%(,3F;/5@-:BC33701P?H=9=21,)559C1559@C1:K3%@:=E?8I3A/)?H14CBAKJAGN6J5DPH-8$=5/5>A9FE9.5>.,3J:@8CNE9545:1D:65>@2;52NF:=9?955-:07?22%5C:8D13>6B?/8C??91.BC5?$=,4=J2$9384(+=#@?6:6./AC2D7+A/B9>,,8>=,%03P?E=7A2#-,DE2@,7771@5:;3>J,73;?1C-H&=C=D:.BD.07=CH69E4LHM@,8E>P1I?;+CI:?9?BA-4#CAF78,A=&;AEAGN:8F&4;BEFDB--(FGFBJ2@1*$7.7@H2#M6(:!/M%=DJ*5:/D=:C:469>0,$5)A#056I623K*6@@.:C9@H:A>7@:@0$/%/F60-3?-55O1FON72=.6*?IJ$9AH3:?5/@8.@9C88E;@4>@CC?:6&@=6377DJBN?97KJ9/?/O:0O@8968C86GB?A2:=>;,30#P?754B153L9C3@54>;=#>E7:6.?6HDB/0?DLB7CEG&H/63;981H&:-4/94>I:JF32;HO?91O@+K;A99B6GF6?54;4>:HD/D;>E/ND4>:=6=.B:EO28@;A3:1D19C8;?>;>89;::?59=0-#;94CB;/;.F=:,EG;?9/BK>D4>C85B:78@8?A906;25?4C>>FDH+OB@@1@KE,D7A?M29./,9(6,>98IKO>8/FN6GE;G@+@9E:7L$3M5N7>.A%CAHJE/+3HB08*@;9G:87*+8A#/?.=21:E4>26;741357;230;&$2;I5726@9;;B:983A62L6:76J,;70=?B:0+=:@@4M6373803+:2M#,8>;90:A%"
},
"encoder.rnn.weight_hh_l0": {
"shape": [
48,
16
],
"scales": "HHMMPQLLIGKJHPGJLKNPJKRKQKLSPLJMNHHGMMOPGHFIKOIG",
"weights": "3DLF>>A12CJ62H.#2)?93>373D73)7O0EAA2I-7+7$69/-=@E#6H28CF78?CBC>4:26C2OOE;6CBJG21546?,O?H99LC@D44F!?H9DE:G-I?38:(?18P-KLCBFKDK6#09,;2;+P3F>.D40?4-PK;O#N)$@&61(8166CC8>C;OC>?G4:%#-;=I@F.4K0./)E==(9>8CILB2D>8B2#2;0D1O;H;@CC>F6;=GL>B4L-0=/H2!?3??C;=HOB>0@8D:08309GB(C$;;;(2%8-)5PJE9@5KG?:5(;$%14BF:O*3H832.;7*44EG3O05E570491:F-BL$+)A?(/L%8=#;+>B>F9:I1?L.6&/2BOB8>1BG2=9,?(>7#1D&/322-4601D46:GE2C*?=331$C3,*HL=8K)?E*1*$4-$7(J9?N8;JKF>/4%,:=C98O8/CA@88813)FO>?E8=D=>=9B)3J,)L$@(2/-80B5M.>-4/D6K@1;LKL!C,43IN0O,=@4D:7?24)3JE:O=6C::.5B)7!:-5L2>+3;/:BE4/(#J9FBC0G@>7AF0)I7=N+2+7>$C1#@?=P70N&%,>5$,3&;N%0:@/HOL>?FGE9&28N/8E/!=?95/4/5G679C+LOD6AD@@:9),5260J*G%>LF0O+?0EM3:@:;0837P:5=.:>H?E8/-O,E;$/3)06FAA99@2D#66588&9J77O;=C3589=6)+9O4LE@=EJ>=?:.IA053#7A?*=86E9BE>?#*;1IA,7/1@99"
},
"encoder.rnn.bias_ih_l0": {
"shape": [
48
],
"scales": "M",
"weights": "9926EEFG5.@9?N*26>C8BG9C@2C41;P;;=90:=4A687:>919"
},
"encoder.rnn.bias_hh_l0": {
"shape": [
48
],
"scales": "L",
"weights": "93/BG;EG=2?17E&>@AK1:G3H;3>=3@O1AC15=978::B9915;"
},
"encoder.rnn.weight_ih_l0_reverse": {
"shape": [
48,
32
],
"scales": "MPINKJIKJEQKILJOLKLLNMKKJMGMJJNJHKRKMLNNRLROOQNK",
"weights": "P87,$G=.68K=8.25/:4555$4DC2>7>>*OHJ/.93839E270.@//-=*=#/:5:90B6:>&#,60KDC0:(>8;(BG@FL0E8GF-;6?28:OK;:2,9,C>C*A3HF6FD8758@1H@=I6IH84-$?1.=5J(C8;-/:)56=/82C6;;961PJF6=-#2*8BA)=8O:(8B*8%*M:;93B>+O%2%0C.L5=?2192$1;B9):0B;673:?=4KBF-27(5:8K>80>A1-,H(D#1CH@8?E3;P?@351,D1FA/1578+899$1$:LAJB2:3/>)747=*IN6/:CB0*A(2B1M9CFI@1D1F39#-4:?I5G/99F:>)7A9:@/?5E63C;458+OKO@/-D*D7@%80FOCB?D5AGE69(F?;J:8.#5A0?51L193428;,86($,58IE:C?9:#29F=B?A./)GC=#AG:;F7>:@O/GF?0:E-C(/@6!17IBE0HI491804;7>G8?3>0)22:==2:?=8;16D/.:A;GC=8@>P4CB?18:@@1@8H9N:93BF99:=189C*7>C@>:E85;OF.?B::5=>=9@B;8729/?-95=7>;49142-@75C=55*7@B@/@P98H1OEAG1??:28D(/6/@==B4:0JA92;E=D;3:4=J?E;J!:C;2+!=@*1/9;B!=A4:8C:.288C4E/B:38OC:5;0,4C;H141J7D9G6;3?F8=4:D=::37/:88E/0>(92.7;A7D;43>OL;N=I7D8PI499744D:78A/?52:62?35D8?5:225FLK?516(#4BJ+=@O5=>L04:=:2DA9A$EDDI01D46-37A63?@@A6H589>8HCO:K1>03(=?2E5CF&?GFF+=GLJL#D57?,EJ=!?(92IG#+=3F%>6G/AL>ID>EHBH;C;HF?NC4?;1?;24(;F2)HC*;:?7143;C@P2;96-.(5B8@EB5+2B?2,9L=IE@EI3O>I>>=8A2=7+@:#3(7>>/E84A0H@6196A;H970=(?5=:(&B9=/)=:+5>IJNH;FGB@6?EC4L!/:E=76)41(?GAJ37I@;;,P6?..//@7;0>4N>.M+76,D46@3K9E=L5N=843A:119D296#?B49.>>=+C;084;;9546=9?4594@>A@C@64F:G3589A:#9#=868/(9.4&M3)51K;5N);7,>>8PAE>;3M.H=7;);/:.:G*2&,EAI89P0E040-?2=/4/=8=8E79;.#33?D:G=B4/6AF@-A=49B8N6698C4473%:;LG1C:;E+@6BA7@>A=K7PC>;/3E93DA).$-=:;;8E0A1:01;086298:@=B4>799>3945;6,9:=,17C4E:>3#4;H97E8B*>,=;CP67G5E542I34E>@6@;:@@384E::==MOF425&3A:C.2;HE2>69=68=->14;4?5=8D8=H$@9*H?8OEB7A;H5G>27/1=23>@AD9,7:#+49D2&=G6;6=:/>:97:;0?49FLM978-@2C@344$8;29@(>&4@:F>?;::,#$?FDIJD::,=JC)23,6A=D76F9::8A."
},
"encoder.rnn.weight_hh_l0_reverse": {
"shape": [
48,
16
],
"scales": "KHFHHDEJINJIMGMHHONIMHMNLLIFSFNJLEHHGHHGEIGKIFJL",
"weights": "=>:1?(IN#9M=I.6594*:F-E5=OG2;A30ON82G2G7=4.5G)&B@5+379;J2)@O=57:BE?=I)CJ5OMJ==2=B966M4OO)M86A:3*:7-C3A2+8.=0$GP8OD5&?2:K7;=196+51/437==9@O:/1BB059@98D30??+:9O:2;5;6;FCB=#/89C97BH+=1%7N2.NE5;D:A@6:E4DG+PF:I;*?IL?&HKDCF#G.B!78??76:.8=0O=7D?.BH:B$1JI6;BH=8>B>EF:(A$IN+>83F*)EBI3,A*GH.EB2I4#K97:09;=9APC9?>=931L/8J:4IH0#9:-0B;A&B7=:@PC7>5677E=!,@-7LG;.;11>:8C.78@4?O=83812AD6&>%?I.P@6>5-D@?B!8>8E>MC.@=A?;B4B>,5C0PA;C;:-D;-#880;;J@97CB;IH@)JF;7IKG8PAD/9>5$@27=;N;29837P=9(O2D84A4D9H:567=-482C7NB1>7@4:9F!?737@K/B:=;6272689(C>NA4D,8?EF13I*:L+MD4P&8L5IH?8>7D2$6;3K471:$20-@95&PO81E1+9;*/25@5O,&K:0AB0?3J?P2G$9>.699@D=9/H$5?P/*82315976551F1HE5J$/CH7F$/EB=OL28!G23*/=D=>68?=B99NB+@1,,1G132G5P3.=81F7>>;7A)*=O1;5:7A?/534>/N@)6C:833C(E:6E4/$BBK529298:6E=+#;E0.1378.4F48EAFE#;*.B"
},
"encoder.rnn.bias_ih_l0_reverse": {
"shape": [
48
],
"scales": "K",
"weights": ";1/:>7973=64@=8?PG,A27,F/@+2/.=)AB>C>78?1+;;6474"
},
"encoder.rnn.bias_hh_l0_reverse": {
"shape": [
48
],
"scales": "K",
"weights": ";9;;2?978>:?3?:4NC/?934=:F0)748.70:I:948>/5B9049"
},
"pooling.query": {
"shape": [
32
],
"scales": "O",
"weights": "611M@O2243OE.1CL?54;-A:/@@B12G2-"
},
"pooling.attention.W.weight": {
"shape": [
32,
32
],
"scales": "LRJPKOQNKIPPQLQNLJKMKNLLNNMJNMMM",
"weights": "88?>M&B#>?8;1&A.83=A844=987;82=85=>9H09#:?0/*6A7;=;/8:@7=;46;84>:.7ML&P,9>7:44G+>;>CB98;=7>5?=3?0C?$78#=;6/*:3?I:;=/86856:7:886:6DC**L#N;3A9A>-C:3:=:=>3>E2>8:@;2B?&38!>550.;6AI4981?4748:78:8597B5>O.>/763511=5=9;7=:5:?;77:@9=:>0DP,A*88200.;487:69=8=;7995=59693KF&O-6CBE->?,9;>B37:>=:4::;6?;69PL%H,55*=33E/4:9:?840@@:??D;A2?=(19!>96..:5AD749/>6=68:8:7:5:57;3!F3E>9E@B@279=:>5;=7665;8599;;8:N.=(98/021>:;=988;58=>678=7;A27DE/O56?:B8@G)>>;;;3::7/?88=;>=3;4!D6H>;A?BB1;788::;8958;=68@76@:*1?#;=5/2=6>C89:56:@6;?49;85=@0=3!I5H;5D9F?.>2;2D>A==9;;:25:8897LG,O,5B7A-1D#8=;694?==.05;A::3E;FP&E$7B.4!.K466D6?;;A467::::=83;-!B6J44/2DD>C75:=;B>B=E608::8977NO4O(2;2>47?-=B5E>7>;=;76B;56=/88#N2K=5?@KA1?79.?76:77:;>76:85=14.L6N?8D;@F*==59B4?77>:952>54861KF6O0;>@?097*6=;94;65?2>9>;@2;1:5#L6K;5B>J;/=6959866:4;96;6:698;6$F7M96JEJG.;9;7;=3698;:>96==>F?+9F#=751-D5.K>628@>:=;A8A>47:0:6KK2I#2>0D+4G$?:C6::7;;?23:E:=:=6BN&A#;=54)5=8;=94?8;6>7:67;685AA%*C$?943378>I=69477B60986;22@/?;9N(>(:>07(0J88;@/:5:6:746=@4B=/2HE=O6:@?A5;;.A87D697;968:?73;"
},
"pooling.attention.W.bias": {
"shape": [
32
],
"scales": "O",
"weights": "C.@.8(:?>C)3@87.@148D@O@?=6?7(2>"
},
"W.weight": {
"shape": [
4,
32
],
"scales": "NORP",
"weights": "/65:9;7?FDB?58:,?M38K-KI*:>:N1)DF;B>;;>7C089C3=>42!6,7383>I?++K885247;>=.G;688=?84A68E;3I90#326@?=D:;=:5+-;:3==;74J8982599)O:J;,"
},
"W.bias": {
"shape": [
4
],
"scales": "@",
"weights": "74.#"
}
}
};
